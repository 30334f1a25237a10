"""Sentences of the service that people meet say what to do, and name no message of the protocol."""

import re
from pathlib import Path
from typing import get_args

from laissez.exchange.access import Limits, Principal, new_token
from laissez.exchange.admission import check_instruction
from laissez.model import ChangeFloor, Instruction, PlaceOrder
from rest_in_process import House, in_house, problem_of

CODE_WORD = re.compile(r"\b[A-Z][a-z]+[A-Z]\w+")


def test_no_refusal_of_a_role_names_a_message() -> None:
    """Each instruction has its words: who is refused a floor hears of floors."""
    _, token = new_token("viewer", None, at=0)
    viewer = Principal(token, Limits())
    for kind in get_args(Instruction):
        refused = check_instruction(viewer, 1, kind(**dict.fromkeys(kind.__struct_fields__)), None)
        assert refused is not None and refused.code == "forbidden"
        assert not CODE_WORD.search(refused.message), refused.message
        assert "and yours is a viewer's" in refused.message
    refused = check_instruction(viewer, 1, ChangeFloor("h100", 1), None)
    assert refused is not None and refused.message.startswith("setting a floor needs an operator's")
    refused = check_instruction(viewer, 1, PlaceOrder("h100", 1, 1), None)
    assert refused is not None and refused.message.startswith("placing an order needs a tenant's")


def test_the_doors_say_what_is_wrong_with_a_token(tmp_path: Path) -> None:
    """A token that is missing or dead is no riddle, and tokens are not for tenants."""

    async def test(house: House) -> None:
        problem = problem_of(await house.send(None, "GET", "/v1/status"), 401, "unauthenticated")
        assert "missing, unknown, expired or revoked" in problem["detail"]
        problem = problem_of(await house.send("a", "GET", "/v1/tokens"), 403, "forbidden")
        assert problem["detail"] == (
            "tokens and webhooks are for operators, and your token is a tenant's"
        )

    in_house(tmp_path, test)

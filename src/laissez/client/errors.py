"""What can go wrong for a client:

    LaissezError
    ├── LoginNeeded          there is no address or no token to go with
    │   └── BadAddress       what was given as the address is none
    ├── ConnectionFailed     the exchange could not be reached, or did not answer, for too long
    ├── NotFilled            a hold did not get its resource
    └── Refusal              the exchange said no: a code for programs, a sentence for people
        ├── Unauthenticated  the token is unknown, expired or revoked
        ├── NotPermitted     the token's role may not do this
        └── ChangeRejected   the market refused a change; `answer` is all of what it said

Arguments that can't be sent at all, a float for money say, are TypeError and ValueError. No error
ever carries a token.
"""

from __future__ import annotations

from laissez.model import Answer, Refused, Rejected, ServiceCode


class LaissezError(Exception):
    """Anything that a client raises."""


class LoginNeeded(LaissezError):
    """There is no address or no token to go with; the sentence says where to put them."""


class BadAddress(LoginNeeded):
    """What was given as the address of an exchange is none; the sentence says what one is."""


class ConnectionFailed(LaissezError):
    """No answer for too long. A change may have been made or not: send it again with its `key`."""

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message, key)
        self.message = message
        self.key = key

    def __str__(self) -> str:
        return self.message


class NotFilled(LaissezError):
    """A hold did not get its resource; the sentence says why, as far as one may know."""


class Refusal(LaissezError):
    """The exchange said no, and nothing changed."""

    def __init__(self, code: str, message: str, retry_after_ms: int | None = None) -> None:
        super().__init__(code, message, retry_after_ms)
        self.code = code
        self.message = message
        self.retry_after_ms = retry_after_ms

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class Unauthenticated(Refusal):
    """The token is unknown, expired or revoked."""


class NotPermitted(Refusal):
    """The token's role may not do this."""


class ChangeRejected(Refusal):
    """The market refused a change. What fell due before it, if anything, is in the answer too."""

    def __init__(self, code: str, message: str, answer: Answer) -> None:
        super().__init__(code, message)
        self.args = (code, message, answer)
        self.answer = answer


_KINDS: dict[str, type[Refusal]] = {
    ServiceCode.UNAUTHENTICATED: Unauthenticated,
    ServiceCode.FORBIDDEN: NotPermitted,
}


def refusal(refused: Refused) -> Refusal:
    """The error for a service's refusal."""
    kind = _KINDS.get(refused.code, Refusal)
    return kind(refused.code, refused.message, refused.retry_after_ms)


def check_accepted(answer: Answer) -> Answer:
    """The answer, unless its last word is that the market refused."""
    last = answer.events[-1] if answer.events else None
    if isinstance(last, Rejected):
        raise ChangeRejected(last.code, last.message, answer)
    return answer

"""Messages as JSON and back: one object a message, tagged with its name, units in field names.

A frame of the conversation holds one message or an array of them, in both directions.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from laissez.model.commands import Command
from laissez.model.events import Event
from laissez.model.message import Message
from laissez.model.protocol import Request, Said
from laissez.model.values import Segment, Segments


def _plain(value: Any) -> Any:
    if isinstance(value, Segments):
        return tuple(value)
    raise NotImplementedError(f"{type(value).__name__} is not part of any message")


def _rich(expected: type, value: Any) -> Any:
    if expected is Segments:
        return Segments(msgspec.convert(value, tuple[Segment, ...]))
    raise NotImplementedError(f"{expected.__name__} is not part of any message")


_encoder = msgspec.json.Encoder(enc_hook=_plain)
_commands: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Command, dec_hook=_rich)
_events: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event, dec_hook=_rich)
_requests: msgspec.json.Decoder[Request | list[Request]] = msgspec.json.Decoder(
    Request | list[Request]
)
_said: msgspec.json.Decoder[Said | list[Said]] = msgspec.json.Decoder(
    Said | list[Said], dec_hook=_rich
)


# Called for every message there is: the methods themselves, without a function around them.
encode: Callable[[Message | Request | list[Request]], bytes] = _encoder.encode
encode_all: Callable[[Sequence[Message]], bytes] = _encoder.encode
decode_requests: Callable[[bytes], Request | list[Request]] = _requests.decode


def decode_said(frame: bytes | bytearray | memoryview) -> Said | list[Said]:
    return _said.decode(frame)


def decode_command(data: bytes | str) -> Command:
    return _commands.decode(data)


def decode_event(data: bytes | str) -> Event:
    return _events.decode(data)

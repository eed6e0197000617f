"""The names and dates of a certificate, from its DER form (RFC 5280): Python tells them only of certificates that it trusts."""

from __future__ import annotations

from datetime import datetime, timezone

import msgspec

_COMMON_NAME, _ORGANISATION = b"\x55\x04\x03", b"\x55\x04\x0a"
_SEQUENCE, _SET, _OID, _CONTEXT_0, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0x31, 0x06, 0xA0, 0x17, 0x18


class PeerCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """What a server showed: who it is, who vouches for it, and from when to when (UTC, ISO 8601)."""

    subject: str = ""
    issuer: str = ""
    not_before: str = ""
    not_after: str = ""

    @property
    def self_signed(self) -> bool:
        """Whether it vouches for itself, as far as the names tell."""
        return bool(self.subject) and self.subject == self.issuer


def read_certificate(der: bytes) -> PeerCertificate | None:
    """The certificate's names and dates, None when the bytes are not a certificate."""
    try:
        fields = _children(_children(_children(der)[0][1])[0][1])
        if fields[0][0] == _CONTEXT_0:  # the version, which version 1 leaves out
            fields = fields[1:]
        _serial, _algorithm, issuer, validity, subject = fields[:5]
        begin, end = _children(validity[1])
        return PeerCertificate(
            subject=_name(subject[1]), issuer=_name(issuer[1]), not_before=_time(*begin), not_after=_time(*end)
        )
    except (IndexError, ValueError):
        return None


def _children(data: bytes) -> list[tuple[int, bytes]]:
    """Tag and content of each element; raises ValueError for what is cut short."""
    found: list[tuple[int, bytes]] = []
    place = 0
    while place < len(data):
        tag, length, place = data[place], data[place + 1], place + 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(data[place : place + size], "big")
            place += size
        if place + length > len(data):
            raise ValueError("an element is cut short")
        found.append((tag, data[place : place + length]))
        place += length
    return found


def _name(data: bytes) -> str:
    """The common name, else the organisation."""
    parts: dict[bytes, str] = {}
    for tag, attributes in _children(data):
        if tag != _SET:
            continue
        for _, attribute in _children(attributes):
            (oid_tag, oid), (_, value) = _children(attribute)[:2]
            if oid_tag == _OID:
                parts.setdefault(oid, value.decode("utf-8", "replace"))
    text = parts.get(_COMMON_NAME) or parts.get(_ORGANISATION) or next(iter(parts.values()), "")
    return "".join(character for character in text if character.isprintable())[:200]


def _time(tag: int, data: bytes) -> str:
    form = {_UTC_TIME: "%y%m%d%H%M%SZ", _GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}[tag]
    return datetime.strptime(data.decode("ascii"), form).replace(tzinfo=timezone.utc).isoformat(timespec="seconds")

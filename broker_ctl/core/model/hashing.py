"""Where on the ring a topic lies (docs: pulsar-hash)."""

import zlib

RING_LOW = 0x00000000
RING_HIGH = 0xFFFFFFFF


def ring_hash(full_topic_name: str) -> int:
    """CRC-32 of the complete topic name, an unsigned 32-bit integer."""
    return zlib.crc32(full_topic_name.encode())

"""The smallest images of a size in each format, and a PDF."""

import struct
import zlib

PDF = b"%PDF-1.4\n1 0 obj\nendobj\ntrailer\nstartxref\n9\n%%EOF\n"


def png(width=2, height=1):
    def part(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = part(b"IDAT", zlib.compress(b"\0" * 3))
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + pixels + part(b"IEND", b"")


def segment(marker, data):
    return bytes((0xFF, marker)) + struct.pack(">H", len(data) + 2) + data


def jpeg(width=2, height=1):
    thumbnail = b"\xff\xd8\xff\xd9"  # an image within the image, with an end of its own
    frame = struct.pack(">BHHB", 8, height, width, 1) + b"\1\x11\0"
    start = b"\xff\xd8" + segment(0xE1, b"Exif\0\0" + thumbnail) + segment(0xC2, frame)
    return start + segment(0xDA, b"\1\1\0\0\x3f\0") + b"\x12\xff\0\x34" + b"\xff\xd9"


def gif(width=2, height=1):
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0,\0\0\0\0\2\0\1\0\0\2\1\0\0;"


def webp(chunk):
    body = b"WEBP" + chunk
    return b"RIFF" + struct.pack("<I", len(body)) + body


def webp_lossy(width=2, height=1):
    frame = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height) + b"\0" * 4
    return webp(b"VP8 " + struct.pack("<I", len(frame)) + frame)


def webp_lossless(width=2, height=1):
    bits = (width - 1) | (height - 1) << 14
    return webp(b"VP8L" + struct.pack("<I", 10) + b"\x2f" + struct.pack("<I", bits) + b"\0" * 5)


def webp_extended(width=2, height=1):
    sides = struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
    return webp(b"VP8X" + struct.pack("<I", 10) + b"\0" * 4 + sides)

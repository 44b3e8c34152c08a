"""A PDF for tests to read."""

import zlib


def pdf(*pages: str, trailer: bytes = b"") -> bytes:
    """A small PDF by hand: a catalogue, a font, and one compressed content stream a page."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        stream = zlib.compress(f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode())
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> "
            + f"/Contents {5 + 2 * number} 0 R >>".encode()
        )
        head = f"<< /Length {len(stream)} /Filter /FlateDecode >>".encode()
        objects.append(head + b"\nstream\n" + stream + b"\nendstream")
    return pdf_of(*objects, trailer=trailer)


def pdf_of(*objects: bytes, trailer: bytes = b"") -> bytes:
    """The objects, from number 1 on, with a table of where they are; the first is the catalogue."""
    body, places = b"%PDF-1.4\n", []
    for number, item in enumerate(objects, start=1):
        places.append(len(body))
        body += f"{number} 0 obj\n".encode() + item + b"\nendobj\n"
    table = b"".join(f"{place:010d} 00000 n \n".encode() for place in places)
    size = len(objects) + 1
    return (
        body
        + f"xref\n0 {size}\n0000000000 65535 f \n".encode()
        + table
        + f"trailer\n<< /Size {size} /Root 1 0 R ".encode()
        + trailer
        + f">>\nstartxref\n{len(body)}\n%%EOF\n".encode()
    )

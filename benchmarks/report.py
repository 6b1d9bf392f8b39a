"""The table of the benchmarks: as text, as Markdown, and drawn."""

from html import escape

SCALE = 40  # pixels of a floor
TOP = 60
HEIGHT = 26


def ratio_of(row: dict[str, object], who: str = "ours") -> list[float]:
    """Return the quartiles of who's ratio to the floor."""
    ratios: dict[str, list[float]] = row["ratios"]  # type: ignore[assignment]
    return ratios[who]


def is_broken(row: dict[str, object]) -> bool:
    return ratio_of(row)[1] > float(str(row["most"]))


def time_of(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{1e6 * seconds:.1f} µs"
    return f"{1e3 * seconds:.2f} ms"


def as_text(rows: list[dict[str, object]], machine: dict[str, object]) -> str:
    versions = ", ".join(f"{k} {v}" for k, v in dict(machine["versions"]).items())  # type: ignore[call-overload]
    lines = [
        f"{machine['date']}, Python {machine['python']}, {machine['system']}, {machine['cpu']}",
        f"load {machine['load']}; {versions}",
        "",
        f"{'row':16}{'floor':>12}{'ours':>8}  {'quartiles':13}{'at most':>8}",
    ]
    for row in rows:
        low, middle, high = ratio_of(row)
        mark = "  OVER" if is_broken(row) else ""
        lines.append(
            f"{row['name']:16}{time_of(float(str(row['floor']))):>12}{middle:8.2f}"
            f"  {f'{low:.2f} to {high:.2f}':13}{float(str(row['most'])):8.2f}{mark}"
        )
        others: dict[str, list[float]] = row["ratios"]  # type: ignore[assignment]
        lines += [
            f"    {who:24}{quartiles[1]:8.2f}  {quartiles[0]:.2f} to {quartiles[2]:.2f}"
            for who, quartiles in others.items()
            if who != "ours"
        ]
        if "p50" in row:
            p50, p99 = (1e3 * float(str(row[name])) for name in ("p50", "p99"))
            lines.append(f"    {'p50, p99 of a step':24}{p50:8.2f}, {p99:.2f} ms")
    return "\n".join(lines)


def as_markdown(rows: list[dict[str, object]]) -> str:
    names = {who for row in rows for who in row["ratios"]} - {"ours"}  # type: ignore[attr-defined]
    others = sorted(names)
    heads = ["", "floor", "Greenroom", "quartiles", "at most", *others, "what is on"]
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for row in rows:
        low, middle, high = ratio_of(row)
        ratios: dict[str, list[float]] = row["ratios"]  # type: ignore[assignment]
        cells = [
            str(row["title"]),
            f"{time_of(float(str(row['floor'])))} per {row['unit']}",
            f"**{middle:.2f} ×**",
            f"{low:.2f} to {high:.2f}",
            f"{float(str(row['most'])):.2f} ×",
            *(f"{ratios[who][1]:.1f} ×" if who in ratios else "" for who in others),
            str(row["on"]),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def as_svg(rows: list[dict[str, object]], machine: dict[str, object]) -> str:
    """Draw the ratio of each row as a bar; the line is the floor."""
    shown = [row for row in rows if ratio_of(row)[1] <= 16]
    height = TOP + HEIGHT * len(shown) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="1100" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="1100" height="{height}" fill="white"/>',
        f'<text x="10" y="22">Times a floor of the same run; {machine["date"]}, '
        f"Python {machine['python']}, {escape(str(machine['cpu']))}</text>",
    ]
    for place, row in enumerate(shown):
        y, ratio = TOP + HEIGHT * place, ratio_of(row)[1]
        colour = "#c0392b" if is_broken(row) else "#2c7fb8"
        width = max(1, round(SCALE * ratio))
        parts += [
            f'<text x="420" y="{y + 14}" text-anchor="end">{escape(str(row["title"]))[:60]}</text>',
            f'<rect x="430" y="{y}" width="{width}" height="18" fill="{colour}"/>',
            f'<text x="{436 + width}" y="{y + 14}">{ratio:.2f}</text>',
        ]
    floor = 430 + SCALE
    parts += [f'<line x1="{floor}" y1="{TOP - 8}" x2="{floor}" y2="{height - 10}" stroke="black"/>']
    return "\n".join([*parts, "</svg>", ""])

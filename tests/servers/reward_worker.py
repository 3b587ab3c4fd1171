"""A real child process in the place of a reward model, which misbehaves as its folder's `config.json` says.

A row's score is the sum of its ids up to the last one that is no padding, over 100. `behaviour`: `refused` and `failed`,
said at loading; `deaths`, how often it dies when asked (counted in a file); `shift_together`, `shift_left`, added
where rows come together or padded at the left; `constant`; `answers`, last id but EOS → what is sent for such a row.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from evalkit.engines.worker import Channel

EOS = 1


def main() -> None:
    channel = Channel()
    load = channel.next()
    folder = Path(load["model"])
    config = json.loads((folder / "config.json").read_text())
    behaviour: dict[str, Any] = config["behaviour"]
    for kind in ("refused", "failed"):
        if kind in behaviour:
            channel.send({kind: behaviour[kind]})
            return
    pad = config["pad_token_id"]
    channel.send({"ready": {"pad_token_id": pad, "pid": os.getpid(), "dtype": load["dtype"]}})
    died = folder / "deaths"
    while True:
        asked = channel.next()
        deaths = int(died.read_text()) if died.exists() else 0
        if deaths < behaviour.get("deaths", 0):
            died.write_text(str(deaths + 1))
            print("RuntimeError: the card fell off", flush=True)  # goes to the log
            os._exit(3)
        channel.send({"scores": [score(row, asked, pad, behaviour) for row in asked["rows"]]})


def score(row: list[int], asked: dict[str, Any], pad: int | None, behaviour: dict[str, Any]) -> Any:
    answers = behaviour.get("answers", {})
    last = str([number for number in row if number != EOS][-1])
    if last in answers:
        return answers[last]
    if "constant" in behaviour:
        return behaviour["constant"]
    read = [number for number in row if asked["at_end"] or number != pad]
    shift = behaviour.get("shift_together", 0.0) if len(asked["rows"]) > 1 else 0.0
    shift += behaviour.get("shift_left", 0.0) if asked["side"] == "left" else 0.0
    return sum(read) / 100 + shift


if __name__ == "__main__":
    main()

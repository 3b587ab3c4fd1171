"""Reward functions of TRL's, verl's and OpenRLHF's shape as components: what they get, what their results become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import BadInput, EvalkitError, Refused
from evalkit.rewards import (
    GroupComponent,
    Response,
    Score,
    Status,
    build,
    evaluate,
    evaluate_group,
    is_adapter,
    resolve,
    takes_groups,
)

ITEM = {"prompt": "1+1=", "level": 3}


def write(root: Path, text: str, kind: str = "trl", name: str = "mine.py") -> str:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return f"{kind}:{name}:f"


def group(
    root: Path, text: str, texts: Sequence[str] = ("a", "bb", "ccc"), *, kind: str = "trl", target: str | None = "2",
    item: Mapping[str, Any] = ITEM, **params: Any,
) -> list[Score]:  # fmt: skip
    component = build(write(root, text, kind), params, root)
    assert isinstance(component, GroupComponent)
    return evaluate_group(component, [Response(each, target, dict(item), None) for each in texts])


def values(scores: Sequence[Score]) -> list[float | None]:
    return [score.value for score in scores]


def failure(scores: Sequence[Score]) -> str:
    """The one reason why all of a group failed."""
    assert {(score.value, score.status) for score in scores} == {(None, Status.FAILED)}
    [reason] = {score.evidence for score in scores}
    return str(reason)


def test_the_three_forms_are_told_from_others_and_two_of_them_score_groups() -> None:
    assert [is_adapter(use) for use in ("trl:a.py:f", "verl:a:f", "openrlhf:a:f", "python:a.py:f", "number", "trl")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip
    assert [takes_groups(use) for use in ("trl:a.py:f", "verl:a.py:f", "openrlhf:a:f")] == [True, False, True]


def test_trl_is_called_by_name_with_all_fields_as_columns_and_the_target(tmp_path: Path) -> None:
    text = "def f(**all):\n    raise ValueError(repr(sorted(all.items())))\n"
    expected = [
        ("completions", ["a", "bb"]),
        ("level", [3, 3]),
        ("prompts", ["1+1=", "1+1="]),
        ("target", ["2", "2"]),
    ]
    assert failure(group(tmp_path, text, ["a", "bb"])) == f"ValueError: {expected!r}"


def test_trl_gets_an_items_own_target_rather_than_the_rendered_one(tmp_path: Path) -> None:
    text = "def f(completions, target, **more):\n    return [float(each) for each in target]\n"
    assert values(group(tmp_path, text, ["a"], item={**ITEM, "target": 7})) == [7.0]
    assert values(group(tmp_path, text, ["a"])) == [2.0]


def test_a_column_that_a_function_requires_and_an_item_lacks_is_named(tmp_path: Path) -> None:
    text = "def f(prompts, completions, level, answer):\n    return level\n"
    assert failure(group(tmp_path, text)) == "the function asks for the column 'answer', which this item does not have"
    assert values(group(tmp_path, text.replace("answer", "answer=None"))) == [3.0, 3.0, 3.0]


def test_trl_passes_what_is_the_trainers_own_to_who_names_it(tmp_path: Path) -> None:
    text = (
        "def f(completions, trainer_state, log_metric, log_extra=1, completion_ids='none', **more):\n"
        "    log_metric('m', 1.0)\n    log_extra('c', completions)\n"
        "    assert trainer_state is None and completion_ids == 'none'\n"
        "    return [float('trainer_state' not in more)] * len(completions)\n"
    )
    assert values(group(tmp_path, text, ["a"])) == [1.0]


def test_conversational_wraps_prompts_and_completions_as_messages(tmp_path: Path) -> None:
    text = "def f(prompts, completions, **more):\n    raise ValueError(f'{prompts} {completions}')\n"
    user, said = [{"role": "user", "content": "1+1="}], [{"role": "assistant", "content": "a"}]
    assert failure(group(tmp_path, text, ["a"], conversational=True)) == f"ValueError: {[user]} {[said]}"
    messages = [{"role": "system", "content": "s"}, *user]
    found = group(tmp_path, text, ["a"], conversational=True, item={"prompt": messages})
    assert failure(found) == f"ValueError: {[messages]} {[said]}"
    assert failure(group(tmp_path, text, ["a"], item={"prompt": messages})) == (
        "the item's field 'prompt' is list, not text; set conversational: true where functions take messages"
    )


def test_the_prompt_is_the_field_that_the_protocol_names(tmp_path: Path) -> None:
    text = "def f(prompts, completions, **more):\n    return [float(prompts == ['q'])]\n"
    assert values(group(tmp_path, text, ["a"], item={"question": "q"}, prompt_field="question")) == [1.0]
    assert failure(group(tmp_path, text, ["a"], item={"question": "q"})) == (
        "the item has no field 'prompt'; set the component's parameter prompt_field"
    )


@pytest.mark.parametrize(
    "text",
    [
        "async def f(completions, **more):\n    return [len(each) for each in completions]\n",
        "class F:\n    def __call__(self, completions, **more): return [len(each) for each in completions]\nf = F()\n",
        "class F:\n    async def __call__(self, completions, **more):\n"
        "        return [len(each) for each in completions]\nf = F()\n",
        "import functools\ndef g(completions, k, **more): return [k * len(each) for each in completions]\n"
        "f = functools.partial(g, k=1)\n",
        "import functools\nasync def g(completions, k, **more): return [k * len(each) for each in completions]\n"
        "f = functools.partial(g, k=1)\n",
        "import numpy\ndef f(completions, **more): return numpy.array([len(each) for each in completions])\n",
        "import numpy\ndef f(completions, **more): return [numpy.float32(len(each)) for each in completions]\n",
        "def f(completions, **more): return (len(each) for each in completions)\n",
    ],
)
def test_whatever_can_be_called_and_listed_is_scored(tmp_path: Path, text: str) -> None:
    assert values(group(tmp_path, text)) == [1.0, 2.0, 3.0]


def test_none_is_no_verdict_nan_is_nan_and_what_is_no_number_failed_in_its_own_slot(tmp_path: Path) -> None:
    text = "def f(completions, **more): return [None, float('nan'), 'yes', True, float('inf')]\n"
    scores = group(tmp_path, text, list("abcde"))
    assert [(score.value, score.status) for score in scores] == [
        (None, Status.ABSTAINED),
        (None, Status.NAN),
        (None, Status.FAILED),
        (1.0, Status.OK),
        (None, Status.NAN),
    ]
    assert scores[2].evidence == "the scorer returned str, not a number"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return [1.0, 2.0]", "the function returned 2 values for 3 completions"),
        ("return [1.0] * 4", "the function returned 4 values for 3 completions"),
        ("return []", "the function returned 0 values for 3 completions"),
        ("return 1.0", "the function returned float, not a list of 3 values"),
        ("return 'abc'", "the function returned str, not a list of 3 values"),
        ("return {1: 1.0, 2: 2.0, 3: 3.0}", "the function returned dict, not a list of 3 values"),
        ("return None", "the function returned NoneType, not a list of 3 values"),
        ("raise KeyError('gone')", "KeyError: 'gone'"),
        ("raise SystemExit", "SystemExit"),
    ],
)
def test_what_is_no_result_of_the_group_fails_all_of_it(tmp_path: Path, body: str, reason: str) -> None:
    assert failure(group(tmp_path, f"def f(completions, **more):\n    {body}\n")) == reason


def test_a_protocol_sets_annotated_parameters_of_the_function(tmp_path: Path) -> None:
    text = "def f(completions, *, cap: float = 2, other=1, **columns): return [min(len(c), cap) for c in completions]\n"
    assert values(group(tmp_path, text, cap="1.5")) == [1.0, 1.5, 1.5]
    resolved = resolve(write(tmp_path, text), {"cap": Decimal("1.5")}, tmp_path)
    assert resolved.params == {"conversational": False, "prompt_field": "prompt", "cap": Decimal("1.5")}
    assert resolved.declared_range is None
    for params, message in (
        ({"cpa": 1}, "no parameter 'cpa'; did you mean 'cap'?"),
        ({"completions": ["x"]}, "no parameter 'completions'; there are cap, conversational, other, prompt_field"),
        ({"other": 1}, "parameter 'other': annotate it as bool, int, float, str or a list of one of these"),
        ({"cap": "x"}, "parameter 'cap': text found; give a number"),
        ({"conversational": "yes"}, "parameter 'conversational': text found; give true/false"),
    ):
        with pytest.raises(BadInput) as error:
            build("trl:mine.py:f", params, tmp_path)
        assert str(error.value) == f"trl:mine.py:f: {message}"


TRL = "f(prompts, completions, **columns)"


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("trl", "def f(prompts, completions, completion_ids): ...",
         "requires 'completion_ids', the trainer's token ids, which an evaluation does not have; give it a default, or "
         f"write {TRL}"),
        ("trl", "def f(completions, environments, **more): ...",
         "requires 'environments', the trainer's environments, which an evaluation does not have; give it a default, "
         f"or write {TRL}"),
        ("trl", "def f(completions, prompt, **more): ...",
         f"requires 'prompt', which TRL does not pass; give it a default, or write {TRL}"),
        ("trl", "def f(completion, target, item): ...", f"takes no 'completions', which TRL passes; write {TRL}"),
        ("trl", "def f(prompts, /, completions): ...",
         f"parameter 'prompts' is positional only, and TRL passes names; write {TRL}"),
        ("trl", "class f: ...", "f is a class; name a function, or an object that can be called"),
        ("trl", "f = 3", "no function 'f' in the file; there are none"),
        ("verl", "def f(data_source, solution_str): ...",
         "cannot be called as the trainer does: got an unexpected keyword argument 'ground_truth'; write "
         "f(data_source, solution_str, ground_truth, extra_info=None, **kwargs)"),
        ("verl", "def f(data_source, solution_str, ground_truth, extra_info, tokenizer): ...",
         "cannot be called as the trainer does: missing a required argument: 'tokenizer'; write "
         "f(data_source, solution_str, ground_truth, extra_info=None, **kwargs)"),
        ("openrlhf", "def f(queries, prompts): ...",
         "cannot be called as the trainer does: too many positional arguments; write "
         "f(queries, prompts, labels, **kwargs)"),
    ],
)  # fmt: skip
def test_a_signature_that_cannot_be_called_is_refused_in_one_line(
    tmp_path: Path, kind: str, text: str, message: str
) -> None:
    use = write(tmp_path, text + "\n", kind)
    with pytest.raises(BadInput) as error:
        resolve(use, {}, tmp_path)
    assert str(error.value) == f"{use}: {message}"


@pytest.mark.parametrize(
    ("use", "kind", "message"),
    [
        ("trl:mine.py", BadInput, "write trl:path/to/file.py:function or trl:package.module:function"),
        ("trl:mine.py:", BadInput, "write trl:path/to/file.py:function or trl:package.module:function"),
        ("trl:a/b:f", BadInput, "write trl:path/to/file.py:function or trl:package.module:function"),
        ("trl:my-file.py:f", BadInput, "no file my-file.py in the workspace; give a path relative to it"),
        ("verl:my-file:f", BadInput, "write verl:path/to/file.py:function or verl:package.module:function"),
        ("trl:other.py:f", BadInput, "no file other.py in the workspace; give a path relative to it"),
        ("trl:mine.py:g", BadInput, "no function 'g' in the file; there are f"),
        ("trl:../mine.py:f", Refused, "the path leaves the workspace; put the file, or a link to it, inside"),
        ("trl:not_there:f", BadInput, "the module does not load: ModuleNotFoundError: No module named 'not_there'"),
    ],
)
def test_a_place_that_is_none_is_refused(tmp_path: Path, use: str, kind: type[EvalkitError], message: str) -> None:
    write(tmp_path, "def f(completions, **more): return [1]\n")
    with pytest.raises(kind) as error:
        build(use, {}, tmp_path)
    assert str(error.value) == f"{use}: {message}"


def verl(root: Path, text: str, item: Mapping[str, Any] = ITEM, **params: Any) -> Score:
    component = build(write(root, text, "verl"), params, root)
    return evaluate(component, Response("so 2", "2", dict(item), None))


VERL = """
def f(data_source, solution_str, ground_truth, extra_info=None, *, scale: float = 1.0):
    right = solution_str.endswith(ground_truth)
    return {"score": scale * right, "acc": right, "seen": f"{data_source}\\n{sorted(extra_info)}"}
"""


def test_verl_is_called_per_sample_and_the_rest_of_its_answer_is_evidence(tmp_path: Path) -> None:
    found = verl(tmp_path, VERL, {**ITEM, "data_source": "sums"}, scale=2)
    assert found == Score(2.0, Status.OK, None, "acc: True, seen: sums ['data_source', 'level', 'prompt']")
    found = verl(tmp_path, VERL, {"extra_info": {"x": 1}}, data_source="given")
    assert found.evidence == "acc: True, seen: given ['x']"


@pytest.mark.parametrize(
    ("body", "value", "status", "evidence"),
    [
        ("return True", 1.0, Status.OK, None),
        ("return 0.25", 0.25, Status.OK, None),
        ("import numpy; return numpy.bool_(True)", 1.0, Status.OK, None),
        ("return None", None, Status.ABSTAINED, "the scorer returned None"),
        ("return float('nan')", None, Status.NAN, "the scorer returned nan"),
        ("return {'score': None, 'why': 'x'}", None, Status.ABSTAINED, "the scorer returned None"),
        ("return {'acc': 1}", None, Status.FAILED, "the function returned an object without 'score': acc"),
        ("return (1.0, 'x')", None, Status.FAILED, "the scorer returned tuple, not a number"),
        ("raise ValueError('no')", None, Status.FAILED, "ValueError: no"),
    ],
)
def test_what_verl_returns(
    tmp_path: Path, body: str, value: float | None, status: Status, evidence: str | None
) -> None:
    text = f"async def f(data_source, solution_str, ground_truth, **kwargs):\n    {body}\n"
    assert verl(tmp_path, text, data_source="d") == Score(value, status, None, evidence)


def test_verl_without_a_data_source_fails_by_name(tmp_path: Path) -> None:
    assert verl(tmp_path, VERL).evidence == (
        "the item has no field 'data_source'; set the component's parameter data_source"
    )


OPENRLHF = """
import numpy
def f(queries, prompts, labels, **kwargs):
    assert [query[len(prompt):] for query, prompt in zip(queries, prompts)] == ["a", "bb", "ccc"]
    assert labels == ["2", "2", "2"] and prompts == ["1+1="] * 3
    rewards = [float(len(query)) for query in queries]
    return RESULT
"""


@pytest.mark.parametrize(
    "result",
    [
        "rewards",
        "numpy.array(rewards)",
        "numpy.array(rewards).reshape(3, 1)",
        "{'rewards': numpy.array(rewards, dtype='float32'), 'scores': rewards, 'extra_logs': {}}",
    ],
)
def test_openrlhf_is_called_per_group_and_its_arrays_are_read(tmp_path: Path, result: str) -> None:
    assert values(group(tmp_path, OPENRLHF.replace("RESULT", result), kind="openrlhf")) == [5.0, 6.0, 7.0]


def test_a_torch_tensor_is_read_where_torch_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = OPENRLHF.replace("numpy", "torch").replace("RESULT", "torch.tensor(rewards).unsqueeze(1)")
    assert values(group(tmp_path, text, kind="openrlhf")) == [5.0, 6.0, 7.0]


def test_openrlhf_results_of_another_shape_fail_the_group(tmp_path: Path) -> None:
    for result, reason in (
        ("numpy.zeros((3, 2))", "the scorer returned list, not a number"),
        ("numpy.zeros((1, 3))", "the function returned 1 values for 3 completions"),
        ("numpy.float64(1)", "the function returned float64, not a list of 3 values"),
        ("{'scores': rewards}", "the function returned an object without 'rewards': scores"),
    ):
        assert failure(group(tmp_path, OPENRLHF.replace("RESULT", result), kind="openrlhf")) == reason


def source(root: Path, use: str) -> str:
    return resolve(use, {}, root).source


PLAIN = "def f(completions, **more):\n    return [1.0] * len(completions)\n"


def test_the_source_covers_the_file_its_imports_and_nothing_else(tmp_path: Path) -> None:
    use = write(tmp_path, "from helper import K\n" + PLAIN, name="rewards/mine.py")
    write(tmp_path, "K = 1\n", name="rewards/helper.py")
    before = source(tmp_path, use)
    write(tmp_path, "K = 1\n", name="rewards/unrelated.py")
    assert source(tmp_path, use) == before
    write(tmp_path, "K = 2\n", name="rewards/helper.py")
    assert source(tmp_path, use) != before


def test_a_dotted_module_of_the_workspace_is_followed_like_a_file(tmp_path: Path) -> None:
    write(tmp_path, "", name="team_of_test/__init__.py")
    write(tmp_path, "K = 1.0\n", name="team_of_test/const.py")
    write(tmp_path, "from .const import K\ndef f(completions, **more):\n    return [K] * len(completions)\n",
          name="team_of_test/mine.py")  # fmt: skip
    use = "trl:team_of_test.mine:f"
    component = build(use, {}, tmp_path)
    assert isinstance(component, GroupComponent)
    assert values(evaluate_group(component, [Response("a", None, ITEM, None)])) == [1.0]
    before = source(tmp_path, use)
    write(tmp_path, "K = 2.0\n", name="team_of_test/const.py")
    assert source(tmp_path, use) != before


def test_two_workspaces_with_a_folder_of_one_name_each_get_their_own(tmp_path: Path) -> None:
    for value in (1, 2):
        root = tmp_path / str(value)
        write(root, f"def f(completions, **more):\n    return [{value}]\n", name="folder_of_test/mine.py")
        component = build("trl:folder_of_test.mine:f", {}, root)
        assert evaluate(component, Response("a", None, ITEM, None)).value == value


def test_an_installed_module_is_its_distribution_and_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site-packages"
    info = site / "rewards_of_test-1.0.dist-info"

    def install(version: str, body: str) -> None:
        write(site, body, name="rewards_of_test/inner.py")
        write(site, "", name="rewards_of_test/__init__.py")
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: rewards-of-test\nVersion: {version}\n")
        (info / "top_level.txt").write_text("rewards_of_test\n")

    install("1.0", PLAIN)
    monkeypatch.syspath_prepend(str(site))
    use, root = "trl:rewards_of_test.inner:f", tmp_path / "ws"
    root.mkdir()
    before = source(root, use)
    install("1.0", PLAIN + "# other bytes\n")
    assert source(root, use) == before
    install("1.1", PLAIN)
    assert source(root, use) != before


def test_a_module_of_pythons_own_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="a module of Python's own"):
        resolve("trl:json:dumps", {}, tmp_path)

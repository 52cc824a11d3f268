"""Verifiers by name, finance-option-v2, and what code-cases-v1 says before any code is run."""

import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.types import CodeVerifier, Exam, Task, Verdict, Verifier
from engine.verdicts import Verdicts
from recipes.domains import DOMAINS
from recipes.verifiers.by_name import VERIFIERS, find_verifier
from recipes.verifiers.code_cases import CODE_CASES, LONGEST
from recipes.verifiers.finance_option import FINANCE_OPTION
from recipes.verifiers.human_eval import HUMAN_EVAL

ROOT = Path(__file__).parents[2]
LIST = {"kind": "list", "moves": [["above", 3], ["times", 2], ["sum", None]], "also": [[9]]}
PRINTED = {"kind": "printed", "value": "[1, 2]"}
CODE = "def f(v):\n    return 2 * sum(x for x in v if x > 3)"

anything = st.text(st.characters(exclude_categories=()))


def task(checker: dict[str, Any]) -> Task:
    return Task(
        family="toy",
        version="1",
        prompt="?",
        checker=checker,
        worked="",
        canonical_key="toy|1",
        template_id="?",
        stratum="any",
    )


def posed(text: Any, checker: dict[str, Any] = LIST, seed: int = 1) -> Exam | Verdict:
    return CODE_CASES.pose(task(checker), text, Random(seed))


def named(text: Any, options: tuple[str, ...] = ("A1", "A10", "B2")) -> Verdict:
    return FINANCE_OPTION.verify(task({"options": list(options), "gold": "A1"}), text)


# By name


def test_every_domain_is_judged_by_a_verifier_that_has_a_name() -> None:
    for domain in DOMAINS.values():
        assert VERIFIERS[domain.verifier.name] is domain.verifier
    assert len({one.sha256 for one in VERIFIERS.values()}) == len(VERIFIERS)


def test_a_verifier_can_be_tried_from_its_own_file(tmp_path: Path) -> None:
    file = tmp_path / "shout.py"
    file.write_text(
        "from engine.types import Verdict, Verifier\n\n"
        "SHOUT = Verifier(name='shout-v1', verify=lambda task, text: Verdict(\n"
        "    score=float(text == task.checker['word'].upper()), reason='heard'))\n"
    )
    assert find_verifier(str(file)).name == "shout-v1"
    for name, message in (("nobody", "name one of code-cases-v1"), ("no.py", "no file no.py")):
        with pytest.raises(ValueError, match=message):
            find_verifier(name)
    (tmp_path / "none.py").write_text("")
    with pytest.raises(ValueError, match="defines 0 Verifiers"):
        find_verifier(str(tmp_path / "none.py"))
    (tmp_path / "plain.py").write_text("def verify(task, text): ...")
    with pytest.raises(ValueError, match=r'add the line PLAIN = Verifier\(name="plain", verify='):
        find_verifier(str(tmp_path / "plain.py"))
    (tmp_path / "bad.py").write_text("def verify(:")
    with pytest.raises(ValueError, match=r"bad\.py cannot be loaded: SyntaxError: .*line 1"):
        find_verifier(str(tmp_path / "bad.py"))


def test_the_oracle_counts_in_the_hash_of_a_code_verifier(tmp_path: Path) -> None:
    oracle = tmp_path / "oracle.py"
    oracle.write_text("one")
    verifier = CodeVerifier(name="x", pose=CODE_CASES.pose, beside=(oracle,))
    before = verifier.sha256
    oracle.write_text("other")
    assert verifier.sha256 != before


@pytest.mark.parametrize("verifier", [CODE_CASES, HUMAN_EVAL], ids=lambda one: one.name)
def test_every_file_that_decides_a_score_of_code_counts_in_the_hash(
    verifier: CodeVerifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path.name) or b"")
    assert len(verifier.sha256) == 64
    assert {"code_cases.py", "inside.py", "judge.py"} <= set(read)


# The command


def verify(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "run.py"), "verify", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_verify_prints_each_disagreement_and_the_count(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    head = '{"kind": "integer", "value": "42", '
    file.write_text(
        head + '"reply": "42", "score": 1, "reason": "right", "names": "42", "why": "bare"}\n\n'
        + head + '"reply": "ANSWER: 41", "score": 1}\n'
    )  # fmt: skip
    done = verify("--verifier", "exact-number-v1", "--cases", str(file))
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and len(lines) == 2
    assert lines[0].startswith("line 3: expected score 1; got score 0.0, reason wrong_value")
    assert lines[1] == "1 agree, 1 disagree"


@pytest.mark.parametrize(
    ("verifier", "text", "message"),
    [
        ("nobody", '{"reply": "1", "score": 1}', "no Verifier is called nobody"),
        ("exact-number-v1", "no json", "line 1: Expecting value"),
        ("exact-number-v1", '{"score": 1}', "line 1: a case is an object with reply"),
        ("exact-number-v1", "", "has no cases"),
    ],
)
def test_verify_says_why_nothing_could_be_compared(
    verifier: str, text: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(text)
    done = verify("--verifier", verifier, "--cases", str(file))
    assert done.returncode == 2 and message in done.stderr


# finance-option-v2


@pytest.mark.parametrize(
    ("text", "option", "reason"),
    [
        ("A1", "A1", "bare_id"),
        ("\ufeff \tA1\r\n\n", "A1", "bare_id"),
        ("Low risk.\nANSWER: A1", "A1", "marker"),
        ("Low risk.\rANSWER:\tA1 ", "A1", "marker"),
        ("ANSWER:A1", "A1", "marker_only"),
        ("B2 is dearer.\nANSWER: A1", "A1", "marker"),
        ("A10", "A10", "bare_id"),
        ("a1", None, "no_marker"),
        ("A1.", None, "no_marker"),
        ("A1\nB2", None, "no_marker"),
        ("\u00a0A1", None, "no_marker"),
        ("\u04101", None, "no_marker"),
        ("", None, "empty"),
        (" \t\r\n", None, "empty"),
        ("ANSWER: A1\nANSWER: A1", None, "several_markers"),
        ("ans\u00adwer\uff1a B2\nANSWER: A1", None, "several_markers"),
        ("Answer: A1", None, "marker_not_last_or_malformed"),
        ("ANSWER: A1\nDone.", None, "marker_not_last_or_malformed"),
        ("ANSWER: A1 B2", None, "marker_not_last_or_malformed"),
        ("ANSWER:\u00a0A1", None, "marker_not_last_or_malformed"),
        ("ANSWER: A1\u2028", None, "marker_not_last_or_malformed"),
        ("ANSWER: A2", None, "unknown_option"),
        ("ANSWER: A1,B2", None, "unknown_option"),
        ("A" * 20_001, None, "too_long"),
        (None, None, "not_text"),
    ],
)
def test_an_option_is_named_bare_or_by_one_marker_at_the_end(
    text: Any, option: str | None, reason: str
) -> None:
    score = 1.0 if option == "A1" else 0.0
    assert named(text) == Verdict(score=score, reason=reason, parsed=option)


@given(anything.filter(lambda text: text.strip(" \t\r\n") != ""))
def test_nothing_may_follow_the_marker(text: str) -> None:
    assert named(f"ANSWER: A1\n{text}").score == 0.0


@given(st.permutations(["A1", "A10", "B2"]), st.one_of(anything, st.just("ANSWER: A1")))
def test_the_order_of_the_options_changes_nothing(options: list[str], text: str) -> None:
    assert named(text, tuple(options)) == named(text)


@pytest.mark.parametrize(
    "checker",
    [
        {"options": ["A1"], "gold": "A1"},
        {"options": ["A1", "a1"], "gold": "A1"},
        {"options": ["A1", "answer"], "gold": "A1"},
        {"options": ["A1", "B 2"], "gold": "A1"},
        {"options": ["A1", "B2"], "gold": "C3"},
        {"options": "A1", "gold": "A1"},
        {},
    ],
)
def test_an_unfair_choice_gives_no_verdict(checker: dict[str, Any]) -> None:
    assert FINANCE_OPTION.verify(task(checker), "A1") == Verdict(score=None, reason="bad_checker")


# code-cases-v1


@pytest.mark.parametrize(
    "text",
    [CODE, f"```python\n{CODE}\n```", f"It is this:\r\n```\r\n{CODE}\r\n```\r\nGood luck."],
)
def test_code_stands_alone_or_in_one_block(text: str) -> None:
    exam = posed(text)
    assert isinstance(exam, Exam)
    assert exam.code.replace("\r", "").strip() == CODE
    assert exam.inputs[0] == ([9],) and exam.expected[0] == 18
    assert len(exam.inputs) == len(exam.expected) >= 20


@pytest.mark.parametrize(
    ("text", "checker", "reason"),
    [
        ("", LIST, "empty"),
        ("```\n\n```", LIST, "empty"),
        ("```python\n" + CODE, LIST, "open_block"),
        (f"```\n{CODE}\n```\nor\n```\n{CODE}\n```", LIST, "several_blocks"),
        ("x" * (LONGEST + 1), LIST, "too_long"),
        (None, LIST, "not_text"),
        ("[1, 3]", PRINTED, "wrong_value"),
        ("[1,2]", PRINTED, "wrong_value"),
        ("[1, 2]\n[1, 3]", PRINTED, "several_lines"),
        ("It prints [1, 2]", PRINTED, "wrong_value"),
        (" \n", PRINTED, "empty"),
    ],
)
def test_where_there_is_nothing_to_run_the_score_is_zero(
    text: Any, checker: dict[str, Any], reason: str
) -> None:
    verdict = posed(text, checker)
    assert isinstance(verdict, Verdict)
    assert (verdict.score, verdict.reason) == (0.0, reason)


def test_the_line_that_is_printed_is_right() -> None:
    assert posed(" [1, 2]\n", PRINTED) == Verdict(score=1.0, reason="right", parsed="[1, 2]")


@pytest.mark.parametrize(
    "checker",
    [
        {},
        {"kind": "poem"},
        {"kind": "list", "moves": [], "also": []},
        {"kind": "list", "moves": [["above", 3], ["times", 2], ["product", None]], "also": []},
        {"kind": "list", "moves": [["above", 3], ["times", 2], ["sum", None]]},
        {"kind": "printed"},
    ],
)
def test_a_faulty_checker_gives_no_verdict_instead_of_a_zero(checker: dict[str, Any]) -> None:
    assert posed(CODE, checker) == Verdict(score=None, reason="bad_checker")


@given(anything)
def test_any_text_is_posed_or_gets_its_verdict(text: str) -> None:
    for checker in (LIST, PRINTED):
        said = posed(text, checker)
        assert isinstance(said, Exam) or said.score == 0.0


def test_inputs_hang_on_the_secret_and_on_the_answer() -> None:
    def inputs(secret: bytes, text: str) -> Any:
        rng = Verdicts(secret, "nobody")._draws(task(LIST), text)
        exam = CODE_CASES.pose(task(LIST), text, rng)
        assert isinstance(exam, Exam)
        return exam.inputs

    first = inputs(b"one", CODE)
    assert first == inputs(b"one", CODE)
    assert first != inputs(b"one", CODE + " ") and first != inputs(b"two", CODE)


def test_a_verifier_that_breaks_gives_no_verdict() -> None:
    def broken(*_: Any) -> Verdict:
        raise ZeroDivisionError("oh")

    verifier = CodeVerifier(name="broken-v1", pose=broken)
    said = Verdicts(b"", "nobody")._pose(verifier, task(LIST), CODE)
    assert said == Verdict(score=None, reason="verifier_crashed", parsed="ZeroDivisionError: oh")


@pytest.mark.parametrize(
    "nonsense",
    [
        Verdict(score=1.5, reason="more than all"),
        Verdict(score=float("nan"), reason="no number"),
        Verdict(score=-0.1, reason="less than nothing"),
        True,
        None,
    ],
)
def test_a_score_that_is_none_gives_no_verdict(nonsense: Any) -> None:
    verifier = Verifier(name="nonsense-v1", verify=lambda task, text: nonsense)
    said = Verdicts(b"", "nobody").one(verifier, task(LIST), CODE)
    assert said.score is None and said.reason == "verifier_crashed"


@pytest.mark.parametrize(
    "exam",
    [
        Exam(code=CODE, entry="f"),
        Exam(code=CODE, entry="f", inputs=((1,), (2,)), expected=(1,)),
        Exam(code=CODE, check="f(1)"),
    ],
)
def test_an_exam_that_nobody_could_fail_gives_no_verdict(exam: Exam) -> None:
    verifier = CodeVerifier(name="kind-v1", pose=lambda *_: exam)
    said = Verdicts(b"", "nobody").one(verifier, task(LIST), CODE)
    assert said.score is None and said.reason == "verifier_crashed"

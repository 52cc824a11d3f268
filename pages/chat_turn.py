"""One question of a chat with the answers to it, side by side: text as text, tokens, seconds."""

from dataclasses import dataclass, field

from nicegui import ui

from pages import words
from pages.answering import Answering
from pages.parts import box, icon, text

Messages = list[dict[str, str]]


@dataclass(kw_only=True, slots=True)
class Turn:
    """What was asked, and who answers: answers by the job of the version, in the order shown."""

    question: str
    names: dict[str, str]  # job -> the version's public name
    answers: dict[str, Answering] = field(default_factory=dict)
    _texts: dict[str, ui.label] = field(default_factory=dict)
    _notes: dict[str, ui.element] = field(default_factory=dict)
    _shown: dict[str, str] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether every answer has ended."""
        return all(answer.over for answer in self.answers.values())

    def draw(self) -> None:
        """The question over its answers."""
        with box("pw-turn", "section").props('aria-label="Question and answers"'):
            with box("pw-question"):
                text("You", "pw-who")
                text(self.question, "pw-lines-kept pw-break")
            with box("pw-answers"):
                for job, name in self.names.items():
                    self._draw_answer(job, name)
        self.refresh()

    def _draw_answer(self, job: str, name: str) -> None:
        with box("pw-card pw-answer").mark(f"answer-{job}"):
            text(name, "pw-l2 pw-break")
            said = text("", "pw-said pw-lines-kept pw-break", "div")
            said.props("aria-live=polite")
            self._texts[job] = said
            self._notes[job] = box("pw-row pw-wrap pw-small pw-2")

    def refresh(self) -> None:
        """Show what has come in since; whatever a model says is set as text."""
        for job, answer in self.answers.items():
            if self._texts[job].text != answer.text:
                self._texts[job].text = answer.text
            note = _note(answer)
            if self._shown.get(job) != note:
                self._shown[job] = note
                self._draw_note(self._notes[job], answer, note)

    def _draw_note(self, place: ui.element, answer: Answering, note: str) -> None:
        place.clear()
        with place:
            if answer.error is not None:
                icon("sym_o_error", "pw-bad")
                text(answer.error, "pw-bad pw-break").props("role=alert")
            else:
                text(note)

    def history(self, job: str) -> Messages:
        """This turn as messages for a version that goes on with the conversation."""
        answer = self.answers.get(job)
        if answer is None or answer.error is not None or not answer.text:
            return []
        asked = {"role": "user", "content": self.question}
        return [asked, {"role": "assistant", "content": answer.text}]


def _note(answer: Answering) -> str:
    """Tokens, seconds and how it ended."""
    if answer.error is not None:
        return answer.error
    seconds = f"{answer.seconds:.1f} s" if answer.over else f"{answer.seconds:.0f} s"
    if not answer.over and not answer.text:
        return f"Waits for the first word, {seconds}. A version that sleeps is woken first."
    plural = "" if answer.tokens == 1 else "s"
    told = [f"{words.count(answer.tokens)} token{plural}", seconds]
    if answer.cancelled:
        told.append("cancelled")
    elif answer.finish == "length":
        told.append("cut off at max tokens")
    return " · ".join(told)

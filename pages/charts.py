"""The two charts of a run: score by round with whiskers, training loss by step."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from app.shapes import Live, RunDetail
from pages import words
from pages.parts import box, card, text

SMOOTHING = 0.12  # weight of the newest point in the smoothed loss
LEAST_AXIS = 0.4  # the score axis reaches at least this far
MOST_ROUNDS = 24  # on the axis; a longer run shows the rounds it has reached


@dataclass(kw_only=True, slots=True, frozen=True)
class Chart:
    """One chart: `options` for ECharts or None when there is nothing to draw, `says` in words."""

    title: str
    sub: str
    says: str
    options: dict[str, Any] | None
    legend: tuple[tuple[str, str], ...] = ()  # class of the key, word


class ChartCard:
    """A card with a chart that is updated in place, so that it does not blink."""

    def __init__(self, make: Callable[[], Chart]) -> None:
        self._make = make
        self._drawn = ui.refreshable(self._draw)
        self._chart = make()
        self._drawn()

    def refresh(self) -> None:
        """Put new points in; draw again only when the chart appears or its words change."""
        before, self._chart = self._chart, self._make()
        if before == self._chart:
            return
        options = self._chart.options
        if before.options is None or options is None or before.sub != self._chart.sub:
            self._drawn.refresh()
            return
        self._element.options.clear()
        self._element.options.update(options)
        self._element.props["aria-label"] = self._chart.says
        self._element.update()

    def _draw(self) -> None:
        chart = self._chart
        with card(chart.title, chart.sub):
            if chart.options is None:
                text(chart.says, "pw-quiet", "div")
                return
            self._element = ui.echart(dict(chart.options), renderer="svg").classes("pw-chart")
            self._element.props("role=img").props["aria-label"] = chart.says
            if chart.legend:
                with box("pw-legend"):
                    for css, word in chart.legend:
                        with box(tag="span"):
                            box(f"pw-key {css}", "span")
                            text(word)


def score_chart(run: RunDetail) -> Chart:
    """Dev score of every version with its interval; the dashed steps are the best so far."""
    points = _points(run)
    if not points:
        return Chart(title="Score by round", sub="", says="No score yet.", options=None)
    last = max(point.round for point in points)
    rounds = run.rounds_target if run.rounds_target <= MOST_ROUNDS else last
    says = ", ".join(f"{p.version} {words.score(p.mean)}" for p in points)
    return Chart(
        title="Score by round",
        sub=f"dev, n {points[0].n}, 95% interval",
        says=f"Dev score by round: {says}",
        options=_score_options(points, rounds),
        legend=(("pw-square", "baseline"), ("", "promoted"), ("pw-ring", "not promoted")),
    )


@dataclass(kw_only=True, slots=True, frozen=True)
class _Point:
    version: str
    round: int
    mean: float
    low: float
    high: float
    n: int
    kind: str  # baseline | promoted | other


def _points(run: RunDetail) -> list[_Point]:
    promoted = {r.candidate for r in run.rounds if r.decision == "promote"}
    points = []
    for version in run.versions:
        score = next((s for s in version.scores if s.split == "dev" and s.mean is not None), None)
        if score is None or score.mean is None:
            continue
        baseline = version.role == "baseline"
        points.append(
            _Point(
                version=version.version,
                round=0 if baseline else score.round,
                mean=score.mean,
                low=score.mean if score.ci_low is None else score.ci_low,
                high=score.mean if score.ci_high is None else score.ci_high,
                n=score.n,
                kind="baseline"
                if baseline
                else "promoted"
                if version.version in promoted
                else "other",
            )
        )
    return sorted(points, key=lambda point: point.round)


def _score_options(points: list[_Point], rounds: int) -> dict[str, Any]:
    base = next((p for p in points if p.kind == "baseline"), None)
    axis = ["base", *(str(n) for n in range(1, rounds + 1))]
    series = [_whiskers(points), _best_so_far(points, rounds), _labels(points)]
    series += [_marks(points, kind) for kind in ("baseline", "promoted", "other")]
    if base is not None:
        series[1]["markLine"] = {
            "silent": True,
            "symbol": "none",
            "label": {"show": False},
            "lineStyle": {"color": "var(--pw-series-2)", "type": "dotted", "width": 1.5},
            "data": [{"yAxis": base.mean}],
        }
    value_axis = {**_VALUE_AXIS, ":axisLabel": _label_format(1)}
    if max(point.high for point in points) < LEAST_AXIS:
        value_axis["max"] = LEAST_AXIS  # near zero, one decimal could not tell the lines apart
    return {
        **_common(),
        "xAxis": {**_AXIS, "type": "category", "data": axis, "boundaryGap": True},
        "yAxis": value_axis,
        "series": series,
    }


def _whiskers(points: list[_Point]) -> dict[str, Any]:
    return {
        "type": "custom",
        "silent": True,
        ":renderItem": WHISKER,
        "data": [[p.round, p.low, p.high, int(p.kind == "baseline")] for p in points],
        "z": 2,
    }


WHISKER = """(params, api) => {
  const [x, bottom] = api.coord([api.value(0), api.value(1)]);
  const top = api.coord([api.value(0), api.value(2)])[1];
  const stroke = api.value(3) ? 'var(--pw-series-2)' : 'var(--pw-series-1)';
  const line = (x1, y1, x2, y2) =>
    ({type: 'line', shape: {x1, y1, x2, y2}, style: {stroke, lineWidth: 2}});
  return {type: 'group', children: [
    line(x, bottom, x, top), line(x - 4, top, x + 4, top), line(x - 4, bottom, x + 4, bottom)]};
}"""


def _best_so_far(points: list[_Point], rounds: int) -> dict[str, Any]:
    """A dashed line that rises at each promoted version and never falls."""
    steps: list[list[float]] = []
    for point in points:
        if point.kind != "other":
            steps.append([point.round, point.mean])
    if steps:
        steps.append([min(rounds, points[-1].round + 1), steps[-1][1]])
    return {
        "type": "line",
        "step": "end",
        "silent": True,
        "symbol": "none",
        "data": steps,
        "lineStyle": {"color": "var(--pw-series-1)", "type": "dashed", "width": 1},
    }


def _labels(points: list[_Point]) -> dict[str, Any]:
    """The mean of each version, above its whisker."""
    data = [
        {"value": [p.round, p.high], "label": {"formatter": words.score(p.mean)}} for p in points
    ]
    label = {"show": True, "position": "top", "distance": 4, "color": "var(--pw-ink)"}
    return {
        "type": "scatter",
        "silent": True,
        "symbolSize": 0.1,
        "data": data,
        "label": {**label, "fontSize": 11, "fontFamily": "Roboto"},
    }


def _marks(points: list[_Point], kind: str) -> dict[str, Any]:
    ring = kind == "other"
    colour = "var(--pw-series-2)" if kind == "baseline" else "var(--pw-series-1)"
    return {
        "type": "scatter",
        "silent": True,
        "symbol": "rect" if kind == "baseline" else "circle",
        "symbolSize": 9,
        "z": 4,
        "data": [[p.round, p.mean] for p in points if p.kind == kind],
        "itemStyle": {
            "color": "var(--pw-surface)" if ring else colour,
            "borderColor": colour,
            "borderWidth": 2 if ring else 0,
        },
    }


def loss_chart(live: Live) -> Chart:
    """Loss of the newest training: raw points under their smoothed line, to the planned end."""
    if not live.loss:
        says = "No training has reported a loss yet."
        return Chart(title="Training loss", sub="", says=says, options=None)
    training = live.phase == "train" and live.progress is not None and live.progress.total
    planned = live.progress.total if training and live.progress else None
    last = live.loss[-1]
    return Chart(
        title="Training loss",
        sub=f"round {live.round}, by step",
        says=f"Training loss {words.score(last.loss)} at step {last.step}",
        options=_loss_options([(p.step, p.loss) for p in live.loss], max(planned or 0, last.step)),
    )


def _loss_options(points: list[tuple[int, float]], steps: int) -> dict[str, Any]:
    smooth: list[list[float]] = []
    level = points[0][1]
    for step, loss in points:
        level += SMOOTHING * (loss - level)
        smooth.append([step, round(level, 4)])
    raw = [[step, loss] for step, loss in points]
    label = {"show": True, "formatter": words.score(points[-1][1]), "color": "var(--pw-ink)"}
    return {
        **_common(),
        "grid": {"left": 40, "right": 48, "top": 12, "bottom": 24},
        "xAxis": {**_AXIS, "type": "value", "min": 0, "max": steps, "splitNumber": 3},
        "yAxis": {**_VALUE_AXIS, ":axisLabel": _label_format(1)},
        "series": [
            _line(raw, "var(--pw-series-2)", 1),
            {**_line(smooth, "var(--pw-series-1)", 2), "endLabel": {**label, "fontSize": 11}},
        ],
    }


def _line(data: list[list[float]], colour: str, width: int) -> dict[str, Any]:
    return {
        "type": "line",
        "silent": True,
        "showSymbol": False,
        "data": data,
        "lineStyle": {"color": colour, "width": width},
    }


_AXIS: dict[str, Any] = {
    "axisLine": {"lineStyle": {"color": "var(--pw-line)"}},
    "axisTick": {"show": False},
    "splitLine": {"show": False},
    "axisLabel": {"color": "var(--pw-ink-3)", "fontSize": 11},
}
_VALUE_AXIS: dict[str, Any] = {
    "type": "value",
    "min": 0,
    "splitNumber": 3,
    "axisLine": {"show": False},
    "axisTick": {"show": False},
    "splitLine": {"lineStyle": {"color": "var(--pw-line)"}},
}


def _label_format(decimals: int) -> str:
    return (
        "({color: 'var(--pw-ink-3)', fontSize: 11, formatter: (v) => v.toFixed("
        f"{int(decimals)})}})"
    )


def _common() -> dict[str, Any]:
    return {
        "animation": False,
        "textStyle": {"fontFamily": "Roboto"},
        "grid": {"left": 40, "right": 16, "top": 24, "bottom": 24},
    }

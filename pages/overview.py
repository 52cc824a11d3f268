"""The tab Overview: where the run is, what happens now, how scores and loss develop."""

from pages.charts import ChartCard, loss_chart, score_chart
from pages.happenings import EventsCard, jobs_card, steers_card
from pages.live import Panel, Part
from pages.parts import box
from pages.place import Place
from pages.run_view import RunView
from pages.steps import StepsCard


def panels(view: RunView, place: Place) -> list[Part]:
    """Draw the tab; the parts that the page refreshes."""
    drawn: list[Part] = [StepsCard(view)]
    with box("pw-cols3"):
        with box("pw-stack"):
            drawn.append(EventsCard(view, place))
        with box("pw-stack"):
            drawn.append(ChartCard(lambda: score_chart(view.detail)))
            drawn.append(ChartCard(lambda: loss_chart(view.live)))
        with box("pw-stack"):
            drawn.append(Panel(lambda: steers_card(view.live.steers), lambda: view.live.steers))
            drawn.append(Panel(lambda: jobs_card(view.run, view.live.jobs), lambda: view.live.jobs))
    return drawn

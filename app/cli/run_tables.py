"""How runs are laid out as tables."""

from typing import Any

from app.cli.grouping import Json
from app.cli.show import duration, moment, print_fields, print_table

HEAD = ("RUN", "AGENT", "STATUS", "ROUND", "TRAININGS", "LATEST CHECKPOINT", "UPDATED AT")
JOB_HEAD = (
    "ROUND",
    "TRAIN JOB ID",
    "STATUS",
    "PURPOSE",
    "METHOD",
    "RANK",
    "DURATION",
    "CHECKPOINT",
)


def print_runs(runs: list[Json]) -> None:
    """One line per run."""
    print_table(HEAD, [_line(run) for run in runs])


def print_run(run: Json) -> None:
    """A run's fields, its jobs by round, its checkpoints."""
    line, checkpoint = _line(run), run["latest_checkpoint"]
    print_fields(
        {
            "Run": run["run"],
            "Agent": run["agent"],
            "Status": run["status"],
            "Latest round": run["latest_round"],
            "Trainings": f"{line[4]} succeeded",
            "Latest checkpoint": checkpoint and f"{checkpoint['name']}  {checkpoint['path']}",
            "Base model": run["base_model"],
            "Updated at": line[6],
        }
    )
    print()
    print_table(JOB_HEAD, [_job_line(job) for entry in run["rounds"] for job in entry["jobs"]])
    print()
    if not run["checkpoints"]:
        print("No checkpoints yet.")
        return
    names = ("name", "round", "train_job_id", "path")
    rows = [[checkpoint[name] for name in names] for checkpoint in run["checkpoints"]]
    print_table(("CHECKPOINT", "ROUND", "TRAIN JOB ID", "PATH"), rows)


def _line(run: Json) -> list[Any]:
    checkpoint = run["latest_checkpoint"] or {}
    return [
        run["run"],
        run["agent"],
        run["status"],
        run["latest_round"],
        f"{run['trainings']['succeeded']}/{run['trainings']['total']}",
        checkpoint.get("name"),
        moment(run["updated_at"]),
    ]


def _job_line(job: Json) -> list[Any]:
    names = ("round", "train_job_id", "status", "purpose", "method", "lora_rank")
    checkpoint = job["checkpoint"] or {}
    return [*(job[name] for name in names), duration(job["duration_sec"]), checkpoint.get("name")]

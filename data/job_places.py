"""Where the work of a job that no loop started is kept: its files, and its rows in the tables."""

from pathlib import Path

from data.home import Home

ROWS = "rows.jsonl"  # what it trains on, as it was admitted


def log_name(job: str) -> str:
    """What stands for the job in tables whose rows belong to a run; no run has such an id."""
    return f"job:{job}"


def job_folder(home: Home, job: str) -> Path:
    """The folder of one job, made on first use."""
    folder = jobs_folder(home) / job
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def jobs_folder(home: Home) -> Path:
    """Where the folders of all such jobs lie."""
    return home.path / "jobs"

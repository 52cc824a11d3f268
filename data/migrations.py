"""The schema's version: a new database is made whole, a newer one is refused."""

from sqlalchemy import Engine as Database
from sqlmodel import SQLModel

from data.tables import SCHEMA_VERSION


class NewerDatabase(Exception):
    """The database was written by a newer Pawl."""


def migrate(db: Database) -> None:
    """Make the tables of a new database; NewerDatabase when this Pawl is too old for it."""
    with db.connect() as connection:
        found = int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
    if found > SCHEMA_VERSION:
        raise NewerDatabase(
            f"the database has schema {found}, this Pawl knows {SCHEMA_VERSION}: update Pawl"
        )
    if found < SCHEMA_VERSION:
        with db.begin() as connection:
            SQLModel.metadata.create_all(connection)
            connection.exec_driver_sql(f"PRAGMA user_version={SCHEMA_VERSION}")

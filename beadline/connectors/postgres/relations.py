"""What a table, a view or a query reads, and whether this server shows who is writing there.

A source that reads up to a value must know that no transaction is open that will add a lower one. The server's list of
locks says so for its own tables. It does not for rows that come from elsewhere: on a standby and in a subscribed table
they were written on another server, in a foreign table they still are there, and in a materialized view they appear
when somebody refreshes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FIRST_USER_RELATION = 16384  # what is below belongs to PostgreSQL itself


@dataclass(frozen=True)
class Relations:
    """All relations that are read, down to the tables.

    :ivar ids: of views and the relations below them, of tables, their partitions and the children that inherit
    :ivar opaque: a view calls functions of the user's, which may read any table
    :ivar problem: why the server does not show everybody who writes, if so
    """

    ids: tuple[int, ...]
    opaque: bool
    problem: str | None


def relations_below(connection: Any, roots: list[int]) -> Relations:
    """What lies below these relations now. It changes: children are added, tables are replaced by views, standbys are
    promoted."""
    found = connection.execute(_BELOW, [roots]).fetchall()
    ids = tuple(id for id, *_ in found)
    (standby,) = connection.execute("SELECT pg_is_in_recovery()").fetchone()
    opaque = bool(connection.execute(_OPAQUE, [list(ids)]).fetchone()[0])
    problem = None
    if standby:
        problem = "the server is a standby, which does not show the open transactions of its primary"
    for _, name, kind, subscribed in found:
        if problem is None and kind == "f":
            problem = f"{name} is a foreign table, and the server that has its rows knows who is writing there"
        elif problem is None and kind == "m":
            problem = f"{name} is a materialized view, which gets rows when it is refreshed, in any order"
        elif problem is None and subscribed:
            problem = f"{name} is filled by a subscription, in the order of the publisher's commits"
    return Relations(ids, opaque, problem)


def relation_named(connection: Any, name: str) -> list[int]:
    """The relation of that name, if there is one."""
    (found,) = connection.execute("SELECT to_regclass(%s)::oid", [name]).fetchone()
    return [] if found is None else [found]


def relations_of(connection: Any, statement: Any) -> list[int]:
    """The relations that a statement names: PostgreSQL locks them when it plans it."""
    with connection.transaction():
        connection.execute(statement, [])
        return [relation for (relation,) in connection.execute(_LOCKED_BY_ME, [FIRST_USER_RELATION])]


def writers(connection: Any, relations: Relations | None) -> frozenset[str]:
    """The transactions that have begun to write to these relations, or, for None, to any relation of the database.

    A transaction that has made a child or a partition, and not committed yet, writes to a relation that nobody else
    can see, and holds a lock on the parent.
    """
    if relations is None or relations.opaque:
        rows = connection.execute(_WRITERS, [FIRST_USER_RELATION])
    else:
        rows = connection.execute(_WRITERS_OF, [list(relations.ids)] * 2)
    return frozenset(writer for (writer,) in rows)


_BELOW = """
    WITH RECURSIVE found(id, kind) AS (
        SELECT oid, relkind FROM pg_class WHERE oid = ANY(%s::oid[])
        UNION
        SELECT c.oid, c.relkind FROM found AS f
        CROSS JOIN LATERAL (
            SELECT inhrelid AS id FROM pg_inherits WHERE inhparent = f.id
            UNION ALL
            SELECT d.refobjid FROM pg_rewrite AS r JOIN pg_depend AS d
                ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass
            WHERE f.kind = 'v' AND r.ev_class = f.id AND r.ev_type = '1'
        ) AS below
        JOIN pg_class AS c ON c.oid = below.id
    )
    SELECT id, id::regclass::text, kind, EXISTS (
        SELECT FROM pg_subscription_rel
        WHERE srrelid = id OR srrelid IN (SELECT relid FROM pg_partition_ancestors(id))
    )
    FROM found ORDER BY found.id
"""
# Functions of PostgreSQL's own are not noted as dependencies.
_OPAQUE = """
    SELECT EXISTS (
        SELECT FROM pg_rewrite AS r JOIN pg_depend AS d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
        WHERE r.ev_class = ANY(%s::oid[]) AND r.ev_type = '1'
            AND d.refclassid NOT IN ('pg_class'::regclass, 'pg_type'::regclass, 'pg_collation'::regclass)
    )
"""
_LOCKED_BY_ME = """
    SELECT DISTINCT relation FROM pg_locks
    WHERE locktype = 'relation' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND mode = 'AccessShareLock' AND granted AND pid = pg_backend_pid() AND relation >= %s
"""
_ALL_LOCKS = """
    SELECT virtualtransaction, relation, mode FROM pg_locks
    WHERE locktype = 'relation' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND granted AND pid IS DISTINCT FROM pg_backend_pid()
"""
_WRITERS = (
    f"SELECT DISTINCT virtualtransaction FROM ({_ALL_LOCKS}) AS l WHERE mode = 'RowExclusiveLock' AND relation >= %s"
)
_WRITERS_OF = f"""
    WITH locks AS MATERIALIZED ({_ALL_LOCKS})
    SELECT DISTINCT virtualtransaction FROM locks AS l
    WHERE mode = 'RowExclusiveLock' AND (
        relation = ANY(%s::oid[])
        OR NOT EXISTS (SELECT FROM pg_class WHERE oid = l.relation) AND EXISTS (
            SELECT FROM locks AS parent
            WHERE parent.virtualtransaction = l.virtualtransaction AND parent.relation = ANY(%s::oid[])
                AND parent.mode IN ('ShareUpdateExclusiveLock', 'ShareRowExclusiveLock', 'AccessExclusiveLock')
        )
    )
"""

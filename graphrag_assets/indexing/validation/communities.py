"""Checks of communities and their reports.

Policy: an entity with a relationship is in exactly one community per level, from level 0 down to its leaf. An entity
without one is in no community. Where only the largest component is clustered (``cluster_graph.use_lcc``), whole smaller
components are left out.
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from graphrag_assets.indexing.validation.base import (
    Booleans,
    Check,
    Integers,
    Published,
    Violation,
    positions,
    violation,
)


def _cover(p: Published) -> list[Violation]:
    titles = p.column("entities", "title")
    communities, members = p.list_positions("communities", "entity_ids", "entities")
    level = p.column("communities", "level").to_numpy(zero_copy_only=False)[communities]
    query = """select concat(e.title, ' at level ', level) as place
        from (select level, unnest(entity_ids) as id from communities) m join entities e using (id)
        group by e.title, level having count(*) > 1"""
    found = p.faults("communities: entity in several communities of one level", query, "communities", "entities")
    covered = np.zeros(len(titles), dtype=np.bool_)
    covered[members[(level == 0) & (members >= 0)]] = True
    degree = p.column("entities", "degree").to_numpy(zero_copy_only=False)
    found += violation("communities: entity without a relationship in a community", covered & (degree == 0), titles)
    missing = ~covered & (degree > 0)
    if missing.any():
        missing &= ~_left_out_by_policy(p, covered)
    return found + violation("communities: entity with relationships in no community of level 0", missing, titles)


def _left_out_by_policy(p: Published, covered: Booleans) -> Booleans:
    """Entities in components that are left out whole, where exactly one component is covered and none is larger."""
    component = _components(p)
    sizes = np.bincount(component, minlength=len(covered))
    with_community = np.unique(component[covered])
    if len(with_community) != 1 or not covered[component == with_community[0]].all():
        return np.zeros(len(covered), dtype=np.bool_)
    left_out: Booleans = (component != with_community[0]) & (sizes[component] <= sizes[with_community[0]])
    return left_out


def _components(p: Published) -> Integers:
    """The first entity of each one's connected component, by hooking and pointer jumping (Shiloach, Vishkin 1982)."""
    titles = p.column("entities", "title")
    ends = [positions(p.column("relationships", end), titles) for end in ("source", "target")]
    known = (ends[0] >= 0) & (ends[1] >= 0)
    a, b = ends[0][known], ends[1][known]
    label: Integers = np.arange(len(titles), dtype=np.int64)
    while True:
        smallest = np.minimum(label[a], label[b])
        before = label.copy()
        for end in (a, b):
            np.minimum.at(label, label[end], smallest)
        while not np.array_equal(label, label[label]):
            label = label[label]
        if np.array_equal(label, before):
            return label


def _nesting(p: Published) -> list[Violation]:
    return tree_is_sound(p) + _members_nest(p)


def tree_is_sound(p: Published, orphans: bool = False) -> list[Violation]:
    """Parents are one level above, and parents and children agree.

    Args:
        p: The tables.
        orphans: Whether a community below level 0 may have no parent.
    """
    wrong = "p.community is null or p.level <> c.level - 1"
    wrong = f"c.parent <> -1 and ({wrong})" if orphans else wrong
    queries = {
        "communities: parent does not exist one level above": f"""
            select c.community as place from communities c left join communities p on p.community = c.parent
            where if(c.level = 0, c.parent <> -1, {wrong})""",  # noqa: S608 (one of two conditions above)
        "communities: children are not the communities that name it as parent": """
            with named as (
                select parent, list(community order by community) as children from communities group by parent)
            select c.community as place from communities c left join named n on n.parent = c.community
            where c.children <> coalesce(n.children, [])""",
    }
    return [v for message, query in queries.items() for v in p.faults(message, query, "communities")]


def _members_nest(p: Published) -> list[Violation]:
    """Members of a community are those of its children; communities are numbered without gaps."""
    queries = {
        "communities: member that the parent does not hold": """
            with m as (select community, parent, level, unnest(entity_ids) as id from communities)
            select concat(c.id, ' in community ', c.community) as place from m c
            anti join m p on p.community = c.parent and p.id = c.id where c.level > 0""",
        "communities: member of a divided community in none of its children": """
            with m as (select community, parent, children, unnest(entity_ids) as id from communities)
            select concat(p.id, ' in community ', p.community) as place from m p
            anti join m c on c.parent = p.community and c.id = p.id where len(p.children) > 0""",
        "communities: numbers do not count from 0": """
            select community as place
            from (select community, row_number() over (order by community) - 1 as expected from communities)
            where community <> expected""",
    }
    return [v for message, query in queries.items() for v in p.faults(message, query, "communities")]


def _content(p: Published) -> list[Violation]:
    """Sizes, the order of members, and the relationships inside."""
    numbers = p.column("communities", "community")
    lengths = pc.list_value_length(p.column("communities", "entity_ids")).to_numpy(zero_copy_only=False)
    size = p.column("communities", "size").to_numpy(zero_copy_only=False)
    found = violation("communities: size is not the number of members", (size != lengths) | (size < 1), numbers)
    return found + members_and_relationships(p)


def members_and_relationships(p: Published, more: bool = False) -> list[Violation]:
    """Members are in the order of the entities, each once; the relationships are those inside.

    Args:
        p: The tables.
        more: Whether relationships may be listed that lead outside.
    """
    numbers = p.column("communities", "community")
    rows, members = p.list_positions("communities", "entity_ids", "entities")
    falling = np.zeros(len(numbers), dtype=np.bool_)
    falling[rows[1:][(np.diff(rows) == 0) & (np.diff(members) <= 0)]] = True
    found = violation("communities: members repeated or not in the order of the entities", falling, numbers)
    inside = f"""
        with m as (select community, unnest(entity_ids) as id from communities),
             titled as (select m.community, e.title from m join entities e using (id)),
             expected as (
                select s.community, r.id from relationships r join titled s on s.title = r.source
                join titled t on t.title = r.target and t.community = s.community),
             listed as (select community, unnest(relationship_ids) as id from communities)
        select concat(coalesce(l.id, e.id), ' in community ', coalesce(l.community, e.community)) as place
        from expected e full join listed l on l.community = e.community and l.id = e.id
        where l.id is null{" or e.id is null" * (not more)}"""  # noqa: S608 (no data)
    message = "communities: relationship_ids are not the relationships inside"
    return found + p.faults(message, inside, "communities", "entities", "relationships")


def _reports(p: Published) -> list[Violation]:
    queries = {
        "community_reports: no report, or several, for a community": """
            select c.community as place from communities c left join community_reports r using (community)
            group by c.community having count(r.community) <> 1""",
        "community_reports: report on a community that does not exist": """
            select r.community as place from community_reports r anti join communities c using (community)""",
        "community_reports: level, parent, children or size differ from the community's": """
            select c.community as place from communities c join community_reports r using (community)
            where c.level <> r.level or c.parent <> r.parent or c.children <> r.children or c.size <> r.size""",
        "community_reports: failed without a reason, or unknown status": """
            select community as place from community_reports
            where status not in ('ok', 'failed') or (status = 'failed' and reason = '')""",
        "community_reports: rank is not between 0 and 10": """
            select community as place from community_reports where rank is null or not (rank >= 0 and rank <= 10)""",
        "community_reports: no title or no content": """
            select community as place from community_reports where trim(title) = '' or trim(full_content) = ''""",
    }
    names = ("communities", "community_reports")
    return [v for message, query in queries.items() for v in p.faults(message, query, *names)]


def _failed_reports(p: Published) -> list[Violation]:
    wrong = pc.equal(p.column("community_reports", "status"), "failed").to_numpy(zero_copy_only=False)
    limit = p.limits.max_failed_reports_share
    if not len(wrong) or wrong.mean() <= limit:
        return []
    message = f"{wrong.mean():.1%} of the reports failed; checks.max_failed_reports_share allows {limit:.1%}"
    return violation(message, wrong, p.column("community_reports", "community"))


_GRAPH = ("communities", "entities", "relationships")

COMMUNITY_CHECKS = (
    Check(
        "community_cover",
        "Every entity is in one community per level, down to its leaf.",
        True,
        _GRAPH,
        _cover,
        "communities",
    ),
    Check(
        "community_nesting",
        "Communities nest, and parents and children agree.",
        True,
        ("communities",),
        _nesting,
        "communities",
    ),
    Check(
        "community_content",
        "Communities hold their members and the relationships inside.",
        True,
        _GRAPH,
        _content,
        "communities",
    ),
    Check(
        "report_coverage",
        "Every community has its report.",
        True,
        ("communities", "community_reports"),
        _reports,
        "community_reports",
    ),
    Check(
        "failed_reports",
        "The share of failed reports is within the limit.",
        True,
        ("community_reports",),
        _failed_reports,
        "community_reports",
    ),
)

"""The whole project: every asset, check, job, resource.

    input ──► documents ──► text_units ──► extracted_* ──► entity_aliases, entities, relationships ──► communities
                                  │             └──► covariates ──────────────────────────────┐             │
                                  └──► text_unit_embeddings          entity_embeddings   community_reports ◄┘
                                                  │                          │                    │
                                                  └──────────────────────────┴── index_snapshot ◄─┴── community_report_embeddings

What comes from one batch's text is partitioned by document batch; the rest is made for the whole corpus.
"""

from __future__ import annotations

import dagster as dg

from graphrag_assets.assets.build import build_definitions
from graphrag_assets.settings_file import load_workspace

defs: dg.Definitions = build_definitions(load_workspace())

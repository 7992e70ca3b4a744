"""Entity resolution: which titles name one entity.

* :mod:`profiles` gathers what is known of each title, :mod:`keys` and :mod:`persons` take titles apart.
* :mod:`candidates` finds the pairs worth judging by blocking, :mod:`scoring` judges them by rules: those for things
  (:mod:`name_scoring`), for persons (:mod:`person_scoring`), and for misspellings (:mod:`slips`).
* :mod:`verdicts` asks a model about the doubtful ones, :mod:`overrides` holds what a user decided.
* :mod:`decisions` forms groups around canonical titles, never chains; :mod:`resolve` puts all of it together.

Precision comes before recall: a missed merge costs an edge, a false one joins two lives.
"""

from graphrag_assets.indexing.resolution.overrides import Overrides, OverridesError, load_overrides
from graphrag_assets.indexing.resolution.profiles import title_profiles
from graphrag_assets.indexing.resolution.resolve import Resolution, ResolutionStatistics, resolve_entities

__all__ = [
    "Overrides",
    "OverridesError",
    "Resolution",
    "ResolutionStatistics",
    "load_overrides",
    "resolve_entities",
    "title_profiles",
]

"""Run by a Python with Microsoft GraphRAG: prints the prompts that its init writes, and its tuning templates, as JSON by file name."""

import json

from graphrag.prompt_tune.template.community_report_summarization import COMMUNITY_REPORT_SUMMARIZATION_PROMPT
from graphrag.prompt_tune.template.entity_summarization import ENTITY_SUMMARIZATION_PROMPT
from graphrag.prompt_tune.template.extract_graph import GRAPH_EXTRACTION_PROMPT as TUNED_GRAPH
from graphrag.prompts.index.community_report import COMMUNITY_REPORT_PROMPT
from graphrag.prompts.index.extract_claims import EXTRACT_CLAIMS_PROMPT
from graphrag.prompts.index.extract_graph import GRAPH_EXTRACTION_PROMPT
from graphrag.prompts.index.summarize_descriptions import SUMMARIZE_PROMPT
from graphrag.prompts.query.basic_search_system_prompt import BASIC_SEARCH_SYSTEM_PROMPT
from graphrag.prompts.query.drift_search_system_prompt import (
    DRIFT_LOCAL_SYSTEM_PROMPT,
    DRIFT_PRIMER_PROMPT,
    DRIFT_REDUCE_PROMPT,
)
from graphrag.prompts.query.global_search_knowledge_system_prompt import GENERAL_KNOWLEDGE_INSTRUCTION
from graphrag.prompts.query.global_search_map_system_prompt import MAP_SYSTEM_PROMPT
from graphrag.prompts.query.global_search_reduce_system_prompt import REDUCE_SYSTEM_PROMPT
from graphrag.prompts.query.local_search_system_prompt import LOCAL_SEARCH_SYSTEM_PROMPT
from graphrag.prompts.query.question_gen_system_prompt import QUESTION_SYSTEM_PROMPT

tuned = {
    "persona": "You are an expert.", "language": "English", "role": "A reader.", "entity_types": "person, place",
    "report_rating_description": "How much it matters.", "examples": "No examples.", "input_text": "{input_text}",
    "entity_name": "{entity_name}", "description_list": "{description_list}",
}  # fmt: skip
print(
    json.dumps(
        {
            "written": {
                "extract_graph": GRAPH_EXTRACTION_PROMPT,
                "summarize_descriptions": SUMMARIZE_PROMPT,
                "extract_claims": EXTRACT_CLAIMS_PROMPT,
                "community_report_graph": COMMUNITY_REPORT_PROMPT,
                "local_search_system_prompt": LOCAL_SEARCH_SYSTEM_PROMPT,
                "global_search_map_system_prompt": MAP_SYSTEM_PROMPT,
                "global_search_reduce_system_prompt": REDUCE_SYSTEM_PROMPT,
                "global_search_knowledge_system_prompt": GENERAL_KNOWLEDGE_INSTRUCTION,
                "drift_search_system_prompt": DRIFT_LOCAL_SYSTEM_PROMPT,
                "drift_reduce_prompt": DRIFT_REDUCE_PROMPT,
                "drift_primer_prompt": DRIFT_PRIMER_PROMPT,
                "basic_search_system_prompt": BASIC_SEARCH_SYSTEM_PROMPT,
                "question_gen_system_prompt": QUESTION_SYSTEM_PROMPT,
            },
            "tuned": {
                "extract_graph": TUNED_GRAPH.format(**tuned),
                "summarize_descriptions": ENTITY_SUMMARIZATION_PROMPT.format(**tuned),
                "community_report_graph": COMMUNITY_REPORT_SUMMARIZATION_PROMPT.format(**tuned),
            },
        }
    )
)

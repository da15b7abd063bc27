"""The gateway before Trino: queries over Hudi tables get the list of files that they need.

Where what is, each list from the outside in:

- what passes through: `serve`, `proxy`, `proxy_settings`, `listening`, `access`, `relay`, `upstream`, `answer`,
  `headers`, `uris`, `running_queries`; header lines that are not UTF-8: `exact_upstream`, `exact_response`;
- the statement in a request: `statement_requests`, `statement_headers`, `session_names`; what the log says of it:
  `logged`;
- how it is rewritten: `rewrite`, `options`, `statement`, `lexing`, `parsing`, `attribution`, `splice`, `reasons`;
- whether it may be, by Trino's access rules: `access_rules`;
- what of its conditions is sure: `unsure`, `current_time`, `trino_filter`, `rounding`.
"""

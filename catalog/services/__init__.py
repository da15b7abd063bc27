"""What the services for engines have in common: servers, secrets, the log of planned queries, metrics.

Where what is:

- running: `hosting`, `lifecycle`, `beside_status`, `warehouse_service`, `options`;
- connections: `framed_server`, `http_listener`, `parts`, `room`, `addresses`, `tls`, `secret`, `doors`, `few_warnings`;
- messages: `thrift_calls`, `thrift_messages`, `thrift_reader`;
- tables: `open_tables`, `held_tables`, `newest_state`, `late_tables`, `workers`; what may be wanted again: `recent`;
- what people see: `query_log`, `metrics`, `status_server`, `status_page`.
"""

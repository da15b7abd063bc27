"""Hive: the service that its storage handler asks which splits a query reads.

Where what is, from the outside in:

- the storage handler, in Java: `jar`, and the command that names it: `commands`;
- the service: `serve`, `service` (a call in, a reply out), `wire` (the contract, and who may call), `options`,
  `settings` (of a table or a session), `hive_site` (what to put into Hive's configuration);
- tables: `tables`, by their `places`; `leases`, so that a query reads one snapshot;
- splits: `planning`, `filters`, `zones` (time zones of Hive), `columns` (of Hive, beside those of the table), `files`
  (those that Hive can read), `splitting` (large files into row groups);
- what Hive would get wrong: `misread` columns; `copies` of file slices, where these lie (`made_files`), how they are
  named (`slice_names`) and written (`slice_writer`).
"""

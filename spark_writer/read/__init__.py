"""Tables as DataFrames whose files this project's planner chooses, read by Spark's own Parquet reader."""

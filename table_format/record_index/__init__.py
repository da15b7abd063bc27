"""The record-level index (RFC-8): in which file group each record key lies.

On disk it is the metadata table's partition `record_index`.
"""

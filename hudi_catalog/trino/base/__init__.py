"""What both of Trino's ways to the service, our connector and the Thrift connectors, have in common."""

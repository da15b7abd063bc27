"""The service's side of Trino's connector `hudi_catalog` (`trino_connector/`), and the folder of its plugin."""

"""Shared test helpers, by what a test needs:

users, approvals, policies, plugins, mcp, webhooks, devices   create objects
owned_objects, recorded_run                                   create one object of every kind, or a finished run
protocol, gateway, rest_client                                clients of the gateway and the REST API, and the server
worker, manual_worker, tools, commands, sandbox               execute runs, tools and commands
fake_model, http_servers, services, processes, stack          run other programs, up to a whole installation
environment, database, audit, schema_check, reference_policy  set up, reset and check
"""

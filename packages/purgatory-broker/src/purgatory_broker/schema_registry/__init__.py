"""A small schema registry, with the REST interface of Confluent's, stored in a topic."""

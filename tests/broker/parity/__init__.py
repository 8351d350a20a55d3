"""What Apache Kafka does, case by case, and whether our broker does the same."""

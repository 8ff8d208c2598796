from django.apps import AppConfig


class InfraConfig(AppConfig):
    name = "clawsite.infra"
    label = "infra"

"""Template filters for the admin."""

from django import template

from clawsite.infra.admin.display import pretty_json

register = template.Library()
register.filter("pretty_json", pretty_json)

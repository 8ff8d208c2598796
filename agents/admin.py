from django.contrib import admin

from agents.models import Agent


@admin.register(Agent)
class AgentAdmin(admin.ModelAdmin):
    list_display = ["slug", "name", "model", "enabled", "max_turns"]
    list_filter = ["enabled"]
    search_fields = ["slug", "name"]

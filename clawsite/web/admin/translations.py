"""Texts of unfold's admin pages. Unfold ships no translations, so its msgids are listed here for our catalog."""

from django.utils.translation import gettext_noop as _

UNFOLD_TEXTS = (
    _("Add row"),
    _("After you've created a user, you’ll be able to edit more user options."),
    _("Apply Filters"),
    _("Cancel"),
    _("Click to cancel"),
    _("Date"),
    _("Date from"),
    _("Date to"),
    _("False"),
    _("From"),
    _("General"),
    _("Go back"),
    _("More actions"),
    _("Next"),
    _("No data"),
    _("No results found"),
    _("Previous"),
    _(
        "Raw passwords are not stored, so there is no way to see this user’s password, but you can change the password using "
        '<a href="{}" class="text-primary-600 dark:text-primary-500">this form</a>.'
    ),
    _("Reset filters"),
    _("Select action"),
    _("Select action to run"),
    _("Select all rows"),
    _("Select record"),
    _("Select value"),
    _("This item will be deleted."),
    _("To"),
    _("Toggle password visibility"),
    _("True"),
    _("Type to search"),
    _("Value"),
)

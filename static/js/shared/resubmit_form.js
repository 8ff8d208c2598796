// The password was confirmed: submit the original form. Without scripts, the page has a button.
document.querySelector("form[data-go-on]").requestSubmit();

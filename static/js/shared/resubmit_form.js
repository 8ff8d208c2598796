// The password was right: what was held is sent at once. Without scripts there is a button.
document.querySelector("form[data-go-on]").requestSubmit();

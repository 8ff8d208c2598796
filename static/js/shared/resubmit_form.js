// The password was confirmed: submit the held form. Without scripts there is a button.
document.querySelector("form[data-go-on]").requestSubmit();

"""The screen: controls on the client's side, a stage on the attacker's.

discretion  what is logged of what goes wrong
limits      how much one visitor may ask for
lending     where attacks run: on a GPU lent for the run, or here
choices     what people may ask for, checked and clamped: the same for page and API
components  the stage and the model drawing, as Gradio components around assets/*.js
defending   the defenses' controls
controls    all of the client's controls, and how their values make an experiment
notes       what the controls say of each other
fields      kinds of values as links write them
links       the whole experiment and the view as a link
linking     opening and copying links
running     runs that a visitor starts and stops
api         the same run for programs
surveying   the tabs Map and Sweep
teaching    the tab Lessons, and the panel of a lesson
comparing   the tab Compare
showing     the tab Results
reading     the tab Read: the documents in assets/docs
page        the page itself, and its events
"""

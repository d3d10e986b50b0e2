"""The screen: controls on the client's side, a stage on the attacker's.

logs              what is logged of what goes wrong
limits            how much one visitor may ask for
computing         where attacks run: on a GPU lent for the run, or here
asked             what may be asked for, and what is said of anything else
choices           what people may ask for, checked and clamped: the same for page and API
components        the stage and the model drawing, as Gradio components around assets/*.js
drawing           the model as blocks to click
client_controls   how the client trains
defense_controls  the defenses' controls
controls          all of the client's controls, and how their values make an experiment
notes             what the controls say of each other
link_values       kinds of values as links write them
link_format       the whole experiment and the view as a link
link_controls     opening and copying links
start_and_stop    runs that a visitor starts and stops
api               the same run for programs
survey_tabs       the tabs Map and Sweep
lessons_tab       the tab Lessons, and the panel of a lesson
compare_tab       the tab Compare
results_tab       the tab Results
read_tab          the tab Read: the documents in assets/docs
page              the page itself, and its events
"""

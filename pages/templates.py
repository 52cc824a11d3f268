"""Pieces of table templates that several tables share; values come in as data, never as markup."""

PILL = (
    '<span class="pw-state" :class="{0}.css"><q-icon :name="{0}.icon" aria-hidden="true"></q-icon>'
    "{{{{ {1} }}}}</span>"
)
FIGURE = (
    "<span class=\"pw-nowrap\"><span :class=\"{0}.span ? 'pw-strong' : ''\">{{{{ {0}.mean }}}}"
    '</span> <span class="pw-2 pw-small">{{{{ {0}.span }}}}</span></span>'
)
# The full date and time of {0} in the browser's zone.
TIME = (
    "{{{{ new Intl.DateTimeFormat('en-GB', {{day: 'numeric', month: 'short', year: 'numeric', "
    "hour: '2-digit', minute: '2-digit', second: '2-digit'}}).format(new Date({0})) }}}}"
)
# The button that opens a row; {0} is the expression of its label.
EXPAND = (
    "<q-btn flat dense :icon=\"props.expand ? 'sym_o_expand_less' : 'sym_o_expand_more'\" "
    'class="pw-flat pw-sm" @click="props.expand = !props.expand" :aria-expanded="props.expand" '
    ':aria-label="{0}"></q-btn>'
)

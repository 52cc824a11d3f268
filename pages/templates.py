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
# The menu of a row, of what its `menu` offers; a choice is the event `act` with action and key.
ROW_MENU = (
    '<q-btn v-if="props.row.menu.length" flat dense icon="sym_o_more_vert" class="pw-flat pw-sm" '
    ':aria-label="\'Actions of \' + props.row.name"><q-menu auto-close anchor="bottom right" '
    'self="top right"><q-list dense><q-item v-for="one in props.row.menu" :key="one.action" '
    'clickable class="pw-item" :disable="one.why !== \'\'" :title="one.why" '
    "@click=\"$parent.$emit('act', {action: one.action, key: props.row.key})\">"
    '<q-icon :name="one.icon" aria-hidden="true"></q-icon><span>{{ one.word }}</span></q-item>'
    "</q-list></q-menu></q-btn>"
)
SIMULATED = (
    '<span v-if="props.row.simulated" class="pw-state pw-sim">'
    '<q-icon name="sym_o_science" aria-hidden="true"></q-icon>Simulated</span>'
)
# Why a row is in its state, on one line; nothing where it has no reason.
REASON = (
    '<div v-if="props.row.reason" class="pw-ell pw-reason-cell">'
    '<span class="pw-l2" :title="props.row.reason">{{ props.row.reason }}</span></div>'
)
# A row's link to the page of a run; relative, so that it holds below a base path too.
RUN_LINK = (
    '<a v-if="props.row.run" class="pw-nowrap" '
    ":href=\"'runs/' + encodeURIComponent(props.row.run)\">{{ props.row.run }}</a>"
    '<span v-else class="pw-faint">—</span>'
)

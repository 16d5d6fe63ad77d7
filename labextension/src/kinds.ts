import type { TranslationBundle } from '@jupyterlab/translation';
import { duration, moment, secondsUntil } from './format';
import type { ILanguage } from './language';
import { holdsSomething } from './owners';
import { doing } from './standing';
import type { WireBoard, WireHolder, WireReport } from './wire';

/** What is particular about an owner of its kind. */
export interface IAboutOwner {
  readonly folder: string | null;
  /** What it is doing. */
  readonly state: string | null;
  readonly facts: readonly string[];
  readonly losses: readonly string[];
}

/** Each kind of owner in its own words. */
export function aboutOf(holder: WireHolder, report: WireReport, now: number, language: ILanguage): IAboutOwner {
  const { trans } = language;
  switch (holder.kind as string) {
    case 'kernel':
      return {
        folder: holder.notebook?.split('/').slice(0, -1).join('/') || null,
        state: doing(holder, trans),
        facts: [],
        losses: [
          trans.__(
            'All variables and everything that is still running are lost. The notebook file and its outputs stay.'
          ),
          ...besides(holder, trans)
        ]
      };
    case 'terminal':
      return {
        folder: null,
        state: holdsSomething(holder, report) ? doing(holder, trans) : null,
        facts: runningIn(holder, trans),
        losses: [trans.__('Its shell, the program in it, and what holds a GPU are ended.'), ...runningIn(holder, trans)]
      };
    case 'tensorboard':
      return boardAbout(holder, holder.board ?? null, now, trans);
    case 'leftovers':
      return {
        folder: holder.notebook?.split('/').slice(0, -1).join('/') || null,
        state: leftState(holder, now, language),
        facts: [],
        losses: [trans.__('These processes are ended, with all that they have not saved.')]
      };
    default:
      return { folder: null, state: doing(holder, trans), facts: [], losses: [trans.__('Its processes are ended.')] };
  }
}

/** What ends with a kernel besides its own process. */
function besides({ tree_size: size }: WireHolder, trans: TranslationBundle): string[] {
  return (size ?? 1) <= 1
    ? []
    : [
        trans._n(
          '%1 process that it has started may end with it.',
          '%1 processes that it has started may end with it.',
          (size ?? 1) - 1
        )
      ];
}

/** Whose it was, is said by its name. */
function leftState(holder: WireHolder, now: number, language: ILanguage): string {
  const { trans } = language;
  const idle = holder.idle_seconds;
  return idle !== null && idle >= 1
    ? trans.__('left behind by an earlier run, no compute for %1', duration(idle, trans))
    : holder.started_at === null
      ? trans.__('left behind by an earlier run')
      : trans.__('left behind by an earlier run, started %1', moment(holder.started_at, now, language));
}

/** What ends with a terminal besides its shell. */
function runningIn({ tree_size: size }: WireHolder, trans: TranslationBundle): string[] {
  if (size === null || size === undefined) {
    return [];
  }
  return size <= 1
    ? [trans.__('Nothing but its shell runs in it.')]
    : [trans._n('%1 process runs in it besides its shell.', '%1 processes run in it besides its shell.', size - 1)];
}

function boardAbout(holder: WireHolder, board: WireBoard | null, now: number, trans: TranslationBundle): IAboutOwner {
  const losses = [
    (board?.port ?? null) === null
      ? trans.__('Its page stops working. The logs it shows stay.')
      : trans.__('Its page on port %1 stops working. The logs it shows stay.', board?.port)
  ];
  if (board === null) {
    return { folder: null, state: doing(holder, trans), facts: [], losses };
  }
  return {
    folder: board.log_dir === '' || holder.name.includes(board.log_dir) ? null : board.log_dir,
    state: watchText(board, trans),
    facts: boardFacts(holder, board, now, trans),
    losses: board.log_dir === '' ? losses : [...losses, trans.__('Logs: %1', board.log_dir)]
  };
}

function boardFacts(holder: WireHolder, board: WireBoard, now: number, trans: TranslationBundle): string[] {
  const where = [
    board.port === null ? null : trans.__('port %1', board.port),
    holder.started_at === null ? null : trans.__('runs for %1', duration(-secondsUntil(holder.started_at, now), trans))
  ].filter(text => text !== null);
  return [
    where.join(' · '),
    board.started_by_name === null ? '' : trans.__('started by %1', board.started_by_name),
    board.inside ? trans.__('runs inside the Jupyter server') : ''
  ].filter(text => text !== '');
}

/** Whether anybody looks at it, or for how long nobody was seen to: that is not to say that somebody did before. */
function watchText({ watchers, unwatched_seconds: unwatched }: WireBoard, trans: TranslationBundle): string {
  if (watchers !== null && watchers > 0) {
    return trans._n('being looked at (%1 connection)', 'being looked at (%1 connections)', watchers);
  }
  if (unwatched !== null) {
    return trans.__('nobody has looked at it for %1', duration(unwatched, trans));
  }
  return watchers === 0 ? trans.__('nobody looks at it now') : trans.__('not known whether anybody looks at it');
}

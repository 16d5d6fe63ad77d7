import type { TranslationBundle } from '@jupyterlab/translation';
import { bytes } from './format';
import type { PROTECTIONS, WHYS, WireOutcome } from './wire';

type Known<T extends readonly string[]> = T[number];

/** A person's name. */
export function personText(name: string, trans: TranslationBundle): string {
  return isNobody(name) ? trans.__('Somebody') : name;
}

/** Whether Jupyter made up this name for who came with a token: it says nothing to anybody. */
export function isNobody(name: string): boolean {
  return /^([0-9a-f]{32}|Anonymous [A-Z][a-z]+)$/.test(name);
}

/** `text`, with the word that tells simulated devices from real ones. */
export function labelled(text: string, simulated: boolean, trans: TranslationBundle): string {
  return simulated ? trans.__('%1 (simulated)', text) : text;
}

/** What an owner is doing, in a word. */
export function stateWord(state: string, trans: TranslationBundle): string {
  switch (state) {
    case 'idle':
      return trans.__('idle');
    case 'executing':
      return trans.__('running');
    case 'waiting-for-input':
      return trans.__('waiting for input');
    case 'at-breakpoint':
      return trans.__('halted at a breakpoint');
    case 'serving':
      return trans.__('serving');
    case 'input-bound':
      return trans.__('input-bound');
    case 'starting':
      return trans.__('starting');
    case 'parked':
      return trans.__('parked');
    case 'dead':
      return trans.__('ended');
    default:
      return trans.__('not known');
  }
}

/** A step of a ladder, as something that comes. */
export function stepNoun(step: string, trans: TranslationBundle): string {
  switch (step) {
    case 'keep':
      return trans.__('nothing');
    case 'warn':
      return trans.__('a warning');
    case 'release':
      return trans.__('the release of what its frameworks keep');
    case 'park':
      return trans.__("its parking in the host's memory");
    case 'resume':
      return trans.__('its return to the GPU');
    case 'shutdown':
      return trans.__('a shutdown');
    default:
      return step;
  }
}

/** A kind of owner. */
export function kindWord(kind: string, trans: TranslationBundle): string {
  switch (kind) {
    case 'kernel':
      return trans.__('a kernel');
    case 'terminal':
      return trans.__('a terminal');
    case 'tensorboard':
      return 'TensorBoard';
    case 'leftovers':
      return trans.__('what was left behind');
    default:
      return kind;
  }
}

/** A device by its name, which one that does not answer has not told. */
export function deviceText(device: string, trans: TranslationBundle): string {
  return device === 'its device' ? trans.__('its device') : device;
}

/** `GPU 0, GPU 1 and GPU 2`, as the server lists them. */
export function devicesText(devices: string, trans: TranslationBundle): string {
  const [first, ...last] = devices.split(' and ');
  return last.length === 0 ? first : trans.__('%1 and %2', first, last.join());
}

/** What is free on a device (null: not known), and who holds the rest (empty: not known). */
export function roomText(free: string | null, who: string, trans: TranslationBundle): string {
  const room = free ?? trans.__('not known');
  return who === '' ? room : trans.__('%1 (held by %2)', room, whoText(who, trans));
}

/** Who holds a device, as the server lists them: processes, or notebooks and others. */
export function whoText(who: string, trans: TranslationBundle): string {
  return who
    .replace(/pid (\d+) \(state (\w)(?:, ([^()]+))?\)/g, (_all, pid: string, state: string, why?: string) =>
      why === undefined
        ? trans.__('pid %1 (state %2)', pid, state)
        : trans.__('pid %1 (state %2, %3)', pid, state, signalText(why, trans))
    )
    .replace(
      /(^|, )others ([\d.]+ \w+|\(not known how much\))$/,
      (_all, before: string, amount: string) => `${before}${trans.__('others %1', amount)}`
    )
    .replace(/\(not known how much\)/g, trans.__('(not known how much)'));
}

/** Why a process was not signalled. */
function signalText(why: string, trans: TranslationBundle): string {
  switch (why) {
    case 'there is no permission to signal it':
      return trans.__('there is no permission to signal it');
    case 'this system has no safe way to signal it':
      return trans.__('this system has no safe way to signal it');
    case 'it is never signalled':
      return trans.__('it is never signalled');
    default:
      return why;
  }
}

/** What spares a holder now. */
export function protectionText(code: string, trans: TranslationBundle): string {
  const texts: Record<Known<typeof PROTECTIONS>, string> = {
    leased: trans.__('Somebody asked to keep it.'),
    executing: trans.__('It is running a cell.'),
    unknown: trans.__('Something about it is not known, and what is not known is never taken for idle.'),
    exempt: trans.__('The policy leaves it alone.'),
    attended: trans.__('It waits for a person, and somebody is connected to it.'),
    busy: trans.__('Its processes use the CPU, the disk or the network.'),
    serving: trans.__('Somebody came lately to a port on which it listens.'),
    estimated: trans.__('Nothing is ended on an estimate.')
  };
  return (texts as Partial<Record<string, string>>)[code] ?? code;
}

/** Why a reading is not known. */
export function unknownText(why: string, trans: TranslationBundle): string {
  const texts: Record<Known<typeof WHYS>, string> = {
    'not-supported': trans.__('the device or its driver does not offer this'),
    'no-permission': trans.__('the driver does not let this user see it'),
    'first-reading': trans.__('it takes two readings, and this was the first'),
    'not-read': trans.__('its source did not answer'),
    'not-available': trans.__('the driver has no value for it'),
    implausible: trans.__('the driver contradicts itself'),
    'device-lost': trans.__('the device is lost'),
    'driver-error': trans.__('the driver reported an error'),
    'pids-hidden': trans.__('the driver names processes that cannot be seen from here'),
    'not-local': trans.__('it runs on another machine'),
    shared: trans.__('it is measured for several together, and cannot be divided'),
    suspended: trans.__('the device is asleep, and reading it would wake it up')
  };
  return (texts as Partial<Record<string, string>>)[why] ?? why;
}

/** How an act ended, in a few words. */
export function resultText(
  outcome: Pick<WireOutcome, 'action' | 'result' | 'freed_bytes'>,
  trans: TranslationBundle
): string {
  switch (outcome.result) {
    case 'done':
      return doneText(outcome, trans);
    case 'rehearsed':
      return rehearsedText(outcome.action, trans);
    case 'already-gone':
      return trans.__('ended by itself');
    case 'withdrawn':
      return trans.__('left alone: in use again');
    case 'failed':
      return failedText(outcome.action, trans);
    case 'unsuited':
      return trans.__('left alone: this does not fit it');
    case 'unknown':
      return trans.__('not known: the server ended meanwhile');
  }
}

function doneText(outcome: Pick<WireOutcome, 'action' | 'freed_bytes'>, trans: TranslationBundle): string {
  switch (outcome.action) {
    case 'warn':
      return trans.__('warned');
    case 'release':
      return outcome.freed_bytes === null
        ? trans.__('gave back what its frameworks kept; how much is not known')
        : outcome.freed_bytes > 0
          ? trans.__('gave back %1', bytes(outcome.freed_bytes))
          : trans.__('had nothing to give back');
    case 'park':
      return trans.__('parked in the memory of the host');
    case 'resume':
      return trans.__('back on its GPU');
    case 'shutdown':
      return trans.__('shut down');
  }
}

function rehearsedText(action: WireOutcome['action'], trans: TranslationBundle): string {
  switch (action) {
    case 'warn':
      return trans.__('would have been warned');
    case 'release':
      return trans.__('would have been asked to give back memory');
    case 'park':
      return trans.__('would have been parked');
    case 'resume':
      return trans.__('would have been resumed');
    case 'shutdown':
      return trans.__('would have been shut down');
  }
}

function failedText(action: WireOutcome['action'], trans: TranslationBundle): string {
  switch (action) {
    case 'warn':
      return trans.__('could not be warned');
    case 'release':
      return trans.__('could not give back memory');
    case 'park':
      return trans.__('could not be parked');
    case 'resume':
      return trans.__('could not be resumed');
    case 'shutdown':
      return trans.__('could not be shut down');
  }
}

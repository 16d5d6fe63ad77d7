import type { Facts } from './reasons';
import type { OUTCOME_CODES } from './wire';
import { deviceText, devicesText, kindWord, roomText, stateWord, stepNoun, whoText } from './words';

type SaidCode = (typeof OUTCOME_CODES)[number];

/** What was done, clause by clause: parts of sentences. */
export const SAID: Record<SaidCode, (facts: Facts) => string> = {
  'ended-in': f => f.trans.__('ended in %1', f.took()),
  ended: f => f.trans.__('ended'),
  'freed-in': f => f.trans.__('freed %1 in %2', f.bytes('freed_bytes'), f.took()),
  'freed-on-in': freedOn,
  'ended-by-itself': f => f.trans.__('it had ended by itself'),
  'ended-meanwhile': f => f.trans.__('it ended meanwhile'),
  'ended-or-restarted': f => f.trans.__('it had ended or was restarted meanwhile'),
  'free-again': f => f.trans.__('%1 are free again', f.bytes('freed_bytes')),
  'free-again-on': freeOn,
  'not-verified': f =>
    f.trans.__('could not verify that its GPU memory is free: %1', f.trans.__('the devices did not answer')),
  'not-all-verified': f =>
    f.trans.__('could not verify that its GPU memory is free: %1', f.trans.__('not every device answered')),
  'not-listed': f => f.trans.__('the driver lists none of its processes any more'),
  'held-nothing': f => f.trans.__('it held no GPU memory'),
  'one-left-alone': f => leftAlone(f, 1),
  'left-alone': f => leftAlone(f, f.number('process_count')),
  'ended-but-held': f => f.trans.__('%1, but %2', f.trans.__('ended'), stillHeld(f)),
  'freed-but-held': f =>
    f.trans.__('%1, but %2', f.trans.__('freed %1 in %2', f.bytes('freed_bytes'), f.took()), stillHeld(f)),
  'freed-on-but-held': f => f.trans.__('%1, but %2', freedOn(f), stillHeld(f)),
  'by-itself-but-held': f => f.trans.__('%1, but %2', f.trans.__('it had ended by itself'), stillHeld(f)),
  'free-but-held': f => f.trans.__('%1, but %2', f.trans.__('%1 are free again', f.bytes('freed_bytes')), stillHeld(f)),
  'free-on-but-held': f => f.trans.__('%1, but %2', freeOn(f), stillHeld(f)),
  'ran-in-server': f => f.trans.__("it ran within the server's own process, so nothing could be verified"),
  'ran-elsewhere': f => f.trans.__('it did not run here, so nothing could be verified'),
  'restarted-or-unknown': f => f.trans.__('it has been restarted since, or its process is not known any more'),
  restarted: f => f.trans.__('it has been restarted since'),
  'process-unknown': f => f.trans.__('its process is not known'),
  'state-unknown': f => f.trans.__('what it does is not known any more'),
  'used-since': f => f.trans.__('it has been used since'),
  'devices-silent': f => f.trans.__('the devices could not be read just before'),
  'processes-silent': f => f.trans.__('its processes could not be read just before'),
  'computes-again': f => f.trans.__('it computes again'),
  'executes-again': f => f.trans.__('it is executing again'),
  'not-idle-any-more': f => f.trans.__('it is not idle any more'),
  'looked-at': f => f.trans.__('somebody is looking at it'),
  'started-something': f => f.trans.__('it has started something since'),
  'kept-at-last': f => f.trans.__('it was kept at the last moment'),
  'being-ended': f => f.trans.__('somebody restarts it or shuts it down'),
  'interrupted-meanwhile': f => f.trans.__('it was interrupted meanwhile'),
  'silent-afterwards': f => f.trans.__('it does not answer any more, so it has begun something else'),
  'cell-begun': f => f.trans.__('a cell had begun or was waiting by then'),
  'too-slow': f => f.trans.__('Jupyter has not shut it down within %1', f.span('limit_seconds')),
  refused: f => f.trans.__("Jupyter could not shut it down (%1; the server's log says more)", f.word('kind')),
  'nothing-else-done': f => f.trans.__('nothing else was done to it'),
  'nothing-done': f => f.trans.__('nothing was done'),
  failed: f => f.trans.__("it failed (%1; the server's log says more)", f.word('kind')),
  'does-not-end': f => f.trans.__('its process, pid %1, does not end', f.word('pid')),
  'would-warn': f => f.trans.__('mode observe: would have warned'),
  'would-release': f => f.trans.__('mode observe: would have had it give back what its frameworks keep'),
  'would-park': f => f.trans.__('mode observe: would have parked it'),
  'would-shut-down': f => f.trans.__('mode observe: would have shut it down'),
  'gave-back': f => f.trans.__('gave back %1 of %2', f.bytes('freed_bytes'), f.held('held_bytes')),
  'gave-back-on': f =>
    f.trans.__(
      'gave back %1 of %2, on %3',
      f.bytes('freed_bytes'),
      f.held('held_bytes'),
      devicesText(f.word('devices'), f.trans)
    ),
  'gave-back-by-count': f => f.trans.__('gave back %1 by the count of its frameworks', f.bytes('freed_bytes')),
  'nothing-to-give': f => f.trans.__('nothing to give back'),
  'devices-did-not-say': f => f.trans.__('the devices did not say what is held now'),
  'keeps-pool': f => f.trans.__('%1 keeps its pool: only ending the process gives it back', f.word('framework')),
  'keeps-pool-in-use': f =>
    f.trans.__(
      '%1 keeps its pool, of which variables hold %2: only ending the process gives it back',
      f.word('framework'),
      f.held('held_bytes')
    ),
  'keeps-variables': f => f.trans.__('%1 keeps %2 that variables hold', f.word('framework'), f.held('held_bytes')),
  'framework-failed': f => f.trans.__('%1 failed (%2)', f.word('framework'), f.word('fault')),
  'error-holds': f =>
    f.trans.__(
      'the saved last error holds %1: run `%2` in the notebook, or restart the kernel',
      f.held('held_bytes'),
      f.word('command')
    ),
  'no-framework': f => f.trans.__('it uses no framework that can be asked'),
  'moved-to-host': f => f.trans.__("%1 were moved to the host's memory in %2", f.held('held_bytes'), f.took()),
  'moved-from-to-host': f =>
    f.trans.__(
      "%1 were moved from %2 to the host's memory in %3",
      f.held('held_bytes'),
      devicesText(f.word('devices'), f.trans),
      f.took()
    ),
  'lives-on': f => f.trans.__('the kernel lives on'),
  'freed-not-seen': f => f.trans.__('what that freed could not be seen'),
  'still-listed': f => f.trans.__('the driver still lists %1', f.held('held_bytes')),
  'goes-on': f => f.trans.__('it goes on as before'),
  'back-after': f => f.trans.__('%1 are back on the GPU after %2', f.held('held_bytes'), f.took()),
  'back-on-after': f =>
    f.trans.__('%1 are back on %2 after %3', f.held('held_bytes'), devicesText(f.word('devices'), f.trans), f.took()),
  'not-parked': f => f.trans.__('it is not parked'),
  'nothing-to-do': f => f.trans.__('mode observe: nothing to do'),
  rehearsal: f => f.trans.__('nothing was done: this is a rehearsal'),
  'cut-off': f => f.trans.__('the server ended before the act was over'),
  warned: f => f.trans.__('warned: holds %1', f.held('held_bytes')),
  'step-at': f => f.trans.__('%1 at %2', stepNoun(f.word('step'), f.trans), f.moment('moment')),
  'nothing-follows': f => f.trans.__('nothing follows by itself'),
  'nobody-told': f => f.trans.__('nobody could be told so far'),
  'warning-failed': f =>
    f.trans.__("the warning could not be published (%1; the server's log says more)", f.word('kind')),
  'another-owner': f => f.trans.__('the verdict is about another owner than %1', f.word('owner')),
  'not-offered': f => f.trans.__('%1 is not offered here', stepNoun(f.word('step'), f.trans)),
  'not-carried-out': f => f.trans.__('%1 is nothing to be carried out', stepNoun(f.word('step'), f.trans)),
  'no-door': f => f.trans.__('it cannot be shut down here (%1)', kindWord(f.word('kind'), f.trans)),
  'state-by-now': f => f.trans.__('by now its state is “%1”', stateWord(f.word('state'), f.trans)),
  'starts-again': f => f.trans.__('it was ended twice within an hour, and something starts it again'),
  'not-told-to-end': f => f.trans.__('it could not be told to end (%1)', f.word('kind')),
  'port-not-free': f => f.trans.__('its port, %1, is not free: something else listens there', f.word('port')),
  'cannot-be-ended-permission': f => cannotBeEnded(f, f.trans.__('there is no permission to signal it')),
  'cannot-be-ended-unsafe': f => cannotBeEnded(f, f.trans.__('this system has no safe way to signal it')),
  'cannot-be-ended-never': f => cannotBeEnded(f, f.trans.__('it is never signalled')),
  'waits-in-driver': f =>
    f.trans.__(
      'its process, pid %1, does not end: it waits in a driver or for a disk (state D), and ends once that is over',
      f.word('pid')
    ),
  'no-kernel': f => f.trans.__('it is no kernel (but %1)', kindWord(f.word('kind'), f.trans)),
  'process-not-here': f => f.trans.__('its process is not known here: it may run on another machine'),
  'no-kernelspec': f => f.trans.__('its kernelspec cannot be read'),
  'another-language': f => f.trans.__('its kernel is not for Python (but %1)', f.word('language')),
  'not-idle': f => f.trans.__('its state is “%1”, and not idle', stateWord(f.word('state'), f.trans)),
  'silent-though-idle': f => f.trans.__('it did not answer, although it seemed to be idle'),
  'no-ipython': f => f.trans.__('it is no IPython kernel (but %1)', f.word('kind')),
  'activity-unknown': f => f.trans.__('this server notes activity in a way that is not known, so asking would count'),
  'has-ended': f => f.trans.__('it has ended by itself'),
  'kernel-late': f => f.trans.__('it did not answer within %1', f.span('limit_seconds')),
  'not-interrupted': f => f.trans.__('it was not interrupted'),
  'no-answer': noAnswer,
  'failed-inside': failedInside,
  'farewell-late': f => f.trans.__('what was registered for its end was not over within %1', f.span('limit_seconds')),
  'farewell-no-answer': f => notCalled(f, noAnswer(f)),
  'farewell-failed-inside': f => notCalled(f, failedInside(f)),
  'farewell-not-asked': f => f.trans.__('what was registered for its end could not be asked for (%1)', f.word('kind')),
  'farewell-called': f => f.trans.__('before that, %1 was called', f.word('functions')),
  'farewell-failed': f => f.trans.__('%1, registered for its end, failed (%2)', f.word('function'), f.word('kind')),
  'farewell-no-time': f => f.trans.__('there was no time for %1', f.word('functions')),
  'park-only-kernels': f => f.trans.__('only kernels can be parked'),
  'park-elsewhere': f => f.trans.__('it runs elsewhere, or its process is not known'),
  'parked-already': f => f.trans.__('it is parked already'),
  'parked-may-save': f => f.trans.__('it is parked and may have something to save'),
  'parked-no-room': f =>
    f.trans.__(
      'it is parked and may have something to save, and %1 has no room for it',
      deviceText(f.word('device'), f.trans)
    ),
  'resume-first': f => f.trans.__("resume it first, or end it by Jupyter's own shutdown, which saves nothing"),
  'park-only-idle': f =>
    f.trans.__('only an idle kernel can be parked, and its state is “%1”', stateWord(f.word('state'), f.trans)),
  'park-only-inferred': f => f.trans.__('it is only inferred, and not seen, that it is on a device'),
  'park-not-all-seen': f => f.trans.__('not all that belongs to it could be seen'),
  'park-devices-unread': f => f.trans.__('the devices could not be read'),
  'park-processes-unread': f => f.trans.__('the process table could not be read'),
  'park-one-process': f =>
    f.trans._n(
      '%1 of its processes is on devices, and only exactly one can be parked',
      '%1 of its processes are on devices, and only exactly one can be parked',
      f.number('process_count')
    ),
  'park-device-silent': f => f.trans.__('its device does not answer'),
  'park-mig': f => f.trans.__('it is on a MIG instance, and the driver cannot park what is there'),
  'park-mps': f => f.trans.__('it uses the multi-process service (MPS), and the driver cannot park such a process'),
  'park-not-compute': f => f.trans.__('it uses its device for more than compute (type %1)', f.word('kind')),
  'park-memory-unknown': f => f.trans.__('it is not known how much it holds'),
  'park-managed': f =>
    f.trans.__(
      '%1 on its device are on no list: managed memory, it seems, which cannot be parked',
      f.bytes('held_bytes')
    ),
  'park-off': f => f.trans.__('parking is switched off'),
  'setting-allows': f => f.trans.__('%1 allows it', `${f.word('setting')} = True`),
  'park-package': f => f.trans.__('it needs the package cuda-bindings: %1', INSTALL),
  'park-package-newer': f => f.trans.__('it needs the package cuda-bindings, 12.8 or later: %1', INSTALL),
  'park-not-noted': f => f.trans.__('it could not be written down that it is parked (%1)', f.word('detail')),
  'park-state': f => f.trans.__('the driver says that its process is in the state “%1”', f.word('state')),
  'park-process-is': f => f.trans.__('the driver says that its process is in the state “%1”', f.word('state')),
  'park-host-unknown': f => f.trans.__('it cannot be told how much memory of the host is free'),
  'park-host-full': f =>
    f.trans.__(
      "it needs %1 of the host's memory, with what is to stay free, and there are %2",
      f.bytes('needed_bytes'),
      f.bytes('free_bytes')
    ),
  'driver-no-reason': f => f.trans.__('the driver gave no reason'),
  'driver-gave-up': f => f.trans.__('the driver has given its process up: only a restart of the kernel helps'),
  'calls-may-wait': f => f.trans.__('its GPU calls may have to wait now: resume it, or restart the kernel'),
  'calls-still-wait': f => f.trans.__('its GPU calls still wait: resume it again, or restart the kernel'),
  'stays-parked': f => f.trans.__('it stays parked, and nothing is lost. It is tried again'),
  'more-room-may-help': f => f.trans.__('more free GPU memory may help, otherwise restart the kernel'),
  'park-process-gone': f => f.trans.__('process %1 has ended, or is another one by now', f.word('pid')),
  'park-process-whose': f => f.trans.__('it cannot be told whose process %1 is', f.word('pid')),
  'park-process-others': f => f.trans.__('process %1 belongs to another user', f.word('pid')),
  'park-driver-speaks': f =>
    f.trans.__('the driver is too old: it speaks CUDA %1, parking needs driver 570', f.word('version')),
  'park-driver-old': f => f.trans.__('the driver is too old: parking needs driver 570 (%1)', f.word('detail')),
  'park-step-refused': f => f.trans.__('the driver refuses the step %1 (%2)', f.word('step'), f.word('kind')),
  'park-no-library': f => f.trans.__('cuda.bindings cannot be used (%1)', f.word('detail')),
  'helper-not-started': f => f.trans.__('the helper could not be started (%1)', f.word('detail')),
  'helper-late': f => f.trans.__('the driver has not answered within %1', f.span('limit_seconds')),
  'helper-silent': f => f.trans.__('the helper has ended without an answer (status %1)', f.word('status')),
  'waits-for-room': f => waits(f, f.bytes('free_bytes')),
  'waits-for-room-of': f => waits(f, f.bytes('free_bytes'), f.word('who')),
  'waits-for-unknown-room': f => waits(f, null),
  'waits-for-unknown-room-of': f => waits(f, null, f.word('who'))
};

function freedOn(f: Facts): string {
  return f.trans.__('freed %1 on %2 in %3', f.bytes('freed_bytes'), devicesText(f.word('devices'), f.trans), f.took());
}

function freeOn(f: Facts): string {
  return f.trans.__('%1 are free again on %2', f.bytes('freed_bytes'), devicesText(f.word('devices'), f.trans));
}

function leftAlone(f: Facts, count: number): string {
  return f.trans._n(
    '%1 process that it had started, without GPU memory, left alone',
    '%1 processes that it had started, without GPU memory, left alone',
    count
  );
}

function stillHeld(f: Facts): string {
  return f.trans.__('%1 still held by %2', f.held('held_bytes'), whoText(f.word('who'), f.trans));
}

const INSTALL = "pip install 'jupyter-gpu-guard[park]'";

function cannotBeEnded(f: Facts, why: string): string {
  return f.trans.__('its process, pid %1, cannot be ended: %2', f.word('pid'), why);
}

function noAnswer(f: Facts): string {
  return f.trans.__('it gave no answer (status %1, %2)', f.word('status'), f.word('kind'));
}

function failedInside(f: Facts): string {
  return f.trans.__('it failed in the kernel (%1)', f.word('kind'));
}

function notCalled(f: Facts, why: string): string {
  return f.trans.__('what was registered for its end could not be called: %1', why);
}

function waits(f: Facts, free: string | null, who = ''): string {
  return f.trans.__(
    'it waits for room: it needs %1 on %2, free there: %3',
    f.bytes('needed_bytes'),
    deviceText(f.word('device'), f.trans),
    roomText(free, who, f.trans)
  );
}

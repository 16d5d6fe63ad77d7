import type { Facts } from './reasons';
import type { SAID_CODES } from './wire';

type SaidCode = (typeof SAID_CODES)[number];

/** What was done, and why a source is silent, clause by clause: parts of sentences in the first half, whole ones below. */
export const SAID: Record<SaidCode, (facts: Facts) => string> = {
  'ended-in': f => f.trans.__('ended in %1', f.took()),
  ended: f => f.trans.__('ended'),
  'freed-in': f => f.trans.__('freed %1 in %2', f.bytes('freed_bytes'), f.took()),
  'ended-by-itself': f => f.trans.__('it had ended by itself'),
  'ended-meanwhile': f => f.trans.__('it ended meanwhile'),
  'ended-or-restarted': f => f.trans.__('it had ended or was restarted meanwhile'),
  'free-again': f => f.trans.__('%1 are free again', f.bytes('freed_bytes')),
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
  'by-itself-but-held': f => f.trans.__('%1, but %2', f.trans.__('it had ended by itself'), stillHeld(f)),
  'free-but-held': f => f.trans.__('%1, but %2', f.trans.__('%1 are free again', f.bytes('freed_bytes')), stillHeld(f)),
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
  'lives-on': f => f.trans.__('the kernel lives on'),
  'freed-not-seen': f => f.trans.__('what that freed could not be seen'),
  'still-listed': f => f.trans.__('the driver still lists %1', f.held('held_bytes')),
  'goes-on': f => f.trans.__('it goes on as before'),
  'back-after': f => f.trans.__('%1 are back on the GPU after %2', f.held('held_bytes'), f.took()),
  'not-parked': f => f.trans.__('it is not parked'),

  'no-driver': f =>
    f.trans.__(
      'No NVIDIA driver here (libnvidia-ml.so.1 is not found): install the driver, or start the container with its GPUs.'
    ),
  'driver-not-loaded': f =>
    f.trans.__('The NVIDIA driver is not loaded: see whether `nvidia-smi` works, and load it or reboot.'),
  'driver-forbidden': f =>
    f.trans.__(
      'This user may not talk to the NVIDIA driver: let the user read and write /dev/nvidiactl and /dev/nvidia*.'
    ),
  'driver-too-old': f => f.trans.__('The NVIDIA driver is too old for nvidia-ml-py: update the driver.'),
  'driver-mismatch': f =>
    f.trans.__(
      'The NVIDIA driver and its library have different versions, as after an update: reboot, or reload the driver and restart this server.'
    ),
  'no-gpu': f => f.trans.__('The NVIDIA driver finds no GPU: see `nvidia-smi` and the system log.'),
  'driver-silent': f =>
    f.trans.__('The NVIDIA driver does not answer (%1): see `nvidia-smi` and the system log.', f.word('detail')),
  'driver-closed': f =>
    f.trans.__('The connection to the NVIDIA driver was closed by another part of this server; it is opened again.'),
  'library-missing': f => f.trans.__('The Python package nvidia-ml-py is missing: %1', 'pip install nvidia-ml-py'),
  'linux-only': f => f.trans.__('jupyter-gpu-guard measures on Linux only.'),
  'no-other-gpu': f => f.trans.__('There is no AMD or Intel GPU here.'),
  stopping: f => f.trans.__('The guard is stopping.'),
  'device-silent': f =>
    f.trans.__('GPU %1 does not answer (%2): see `nvidia-smi` and the system log.', f.word('index'), f.word('detail')),
  'pids-hidden': f =>
    f.trans.__(
      "%1: this container cannot see its own GPU processes, because the driver names them by the host's numbers: update the driver to 570 or later, or start the container in the host's pid namespace. For a notebook that is alone on its GPU, %2 gives an estimate.",
      f.word('device'),
      'c.GpuGuard.estimate_sole_owner = True'
    ),
  'who-is-estimated': f =>
    f.trans.__(
      '%1: who is on it is an estimate, because this container cannot see its own GPU processes: nothing is ended on it unless a rule trusts estimates.',
      f.word('device')
    ),
  'who-is-forbidden': f =>
    f.trans.__('%1: this user may not see which processes use it: an administrator can allow it.', f.word('device')),
  'who-is-unsupported': f =>
    f.trans.__('%1: this driver does not say which processes use it, so nothing can be judged.', f.word('device')),
  'who-is-unknown': f =>
    f.trans.__(
      '%1: the driver does not say which processes use it (%2): see `nvidia-smi` and the system log.',
      f.word('device'),
      f.word('detail')
    ),
  'kernels-late': f => f.trans.__("the server's kernels gave no answer within %1", f.span('limit_seconds')),
  'kernels-silent': f => f.trans.__("the server's kernels could not be listed: %1", f.word('detail')),
  'processes-unread': f => f.trans.__('the process table could not be read: %1', f.word('detail')),
  'devices-unread': f => f.trans.__('the devices could not be read: %1', f.word('detail')),
  'leases-unread': f => f.trans.__('the leases could not be read: %1', f.word('detail'))
};

function leftAlone(f: Facts, count: number): string {
  return f.trans._n(
    '%1 process that it had started, without GPU memory, left alone',
    '%1 processes that it had started, without GPU memory, left alone',
    count
  );
}

function stillHeld(f: Facts): string {
  return f.trans.__('%1 still held by %2', f.held('held_bytes'), f.word('who'));
}

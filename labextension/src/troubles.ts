import type { Facts } from './reasons';
import type { PROBLEM_CODES } from './wire';

/** Why a source is silent, and what the guard cannot do now: whole sentences. */
export const TROUBLES: Record<(typeof PROBLEM_CODES)[number], (facts: Facts) => string> = {
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
  'leases-unread': f => f.trans.__('the leases could not be read: %1', f.word('detail')),
  'driver-list-fails': f =>
    f.trans.__('The NVIDIA driver does not say which devices there are (%1).', f.word('detail')),
  'library-broken': f =>
    f.trans.__(
      'The Python module pynvml cannot be imported (%1): %2, then restart this server',
      f.word('detail'),
      f.word('command')
    ),
  'library-other': f =>
    f.trans.__(
      'The Python module pynvml at %1 is not the one of nvidia-ml-py: %2, then restart this server',
      f.word('place'),
      f.word('command')
    ),
  'driver-late': f =>
    f.trans.__('The driver gave no answer within %1; nothing is judged until it answers.', f.span('limit_seconds')),
  'other-gpus-unread': f =>
    f.trans.__("AMD's and Intel's GPUs cannot be read (%1): see the system log.", f.word('detail')),
  'no-simulated': f =>
    f.trans.__('%1 describes no simulated devices: restart the server, which writes them anew', f.word('place')),
  'who-is-next': f =>
    f.trans.__(
      "%1: the next reading tells which processes use it: what the driver's process numbers mean in this container takes two readings.",
      f.word('device')
    ),
  'who-is-implausible': f =>
    f.trans.__(
      "%1: the driver's list of processes is not used: %2. Update the NVIDIA driver and nvidia-ml-py, and restart this server.",
      f.word('device'),
      f.word('detail')
    ),
  'instances-unknown': f =>
    f.trans.__(
      '%1: the driver does not say which MIG instances it has (%2): see `nvidia-smi -L`.',
      f.word('device'),
      f.word('detail')
    ),
  'terminals-silent': f => f.trans.__("the server's terminals could not be listed: %1", f.word('detail')),
  'tensorboards-silent': f => f.trans.__("the server's TensorBoards could not be listed: %1", f.word('detail')),
  'marks-unread': f => f.trans.__('the environment of processes could not be read: %1', f.word('detail')),
  'activity-unread': f => f.trans.__('what processes do apart from GPUs could not be read: %1', f.word('detail')),

  'no-tick': f => f.trans.__('No reading has been completed yet.'),
  'policy-kept': f => f.trans.__('The newest files of the policy could not be used; the one before is in force.'),
  'policy-none': f => f.trans.__('The files of the policy could not be used; nothing is ended until they are mended.'),
  'policy-waits': f => f.trans.__('A newer policy waits for an administrator; the one before is in force.'),
  'policy-waits-for': f =>
    f.trans.__(
      'Policy %1 is not in force yet: it would newly end %2 of %3 that hold GPU memory. Look at it, and accept it with `%4`, or mend its files.',
      f.word('hash'),
      f.number('newly_count'),
      f.number('holder_count'),
      f.word('command')
    ),
  'leases-unsaved': f => f.trans.__('The leases cannot be saved in %1 (%2).', f.word('place'), f.word('detail')),
  'leases-kept': f =>
    f.trans.__(
      'The leases in %1 cannot be read (%2); those known before still hold.',
      f.word('place'),
      f.word('detail')
    ),
  'leases-stay': f =>
    f.trans.__(
      'The leases in %1 are damaged (%2) and stay as they are (%3).',
      f.word('place'),
      f.word('damage'),
      f.word('detail')
    ),
  'leases-damaged': f => f.trans.__('The leases in %1 are damaged (%2).', f.word('place'), f.word('damage')),
  'leases-aside': f =>
    f.trans.__(
      'The leases in %1 were damaged (%2); the file is kept as %3.',
      f.word('place'),
      f.word('damage'),
      f.word('file')
    ),
  'audit-unwritten': f => f.trans.__('The audit cannot be written in %1 (%2).', f.word('place'), f.word('detail')),
  'parked-unread': f => f.trans.__('What is parked cannot be read from %1 (%2).', f.word('place'), f.word('detail')),
  'parked-damaged': f =>
    f.trans.__('What is parked was damaged in %1; the file is kept as %2.', f.word('place'), f.word('file')),
  'audit-lost-one': f => lost(f, 1),
  'audit-lost': f => lost(f, f.number('entry_count')),
  'budgets-apart': f =>
    f.trans.__('What was used of budgets cannot be exchanged with other servers: %1.', f.word('detail')),
  'budgets-unopened': f =>
    f.trans.__('What was used of budgets cannot be opened in %1: %2.', f.word('place'), f.word('detail')),
  'budgets-unread': f =>
    f.trans.__('What was used of budgets cannot be read in %1: %2.', f.word('place'), f.word('detail')),
  'budgets-unsaved': f =>
    f.trans.__('What was used of budgets cannot be saved in %1: %2.', f.word('place'), f.word('detail')),
  'budgets-not-counted': f =>
    f.trans.__('%1 does not count towards any budget: %2.', f.word('place'), f.word('detail')),
  'budgets-too-many': f =>
    f.trans.__(
      'Of %1 files in %2 only the first %3 count towards budgets.',
      f.number('file_count'),
      f.word('place'),
      f.number('most_count')
    ),
  'activity-stands': f =>
    f.trans.__(
      "The server's last activity of %1 stands still although cells run in it; whatever ends idle kernels by that time errs.",
      f.word('name')
    ),
  'nobody-told-by': f =>
    f.trans.__('Nobody can be told by %1 (%2): %3.', f.word('teller'), f.word('place'), f.word('detail')),
  'teller-unusable': f => f.trans.__('Nobody can be told this way: %1 %2', f.word('setting'), f.word('detail'))
};

function lost(f: Facts, count: number): string {
  return f.trans._n(
    'Lost: %1 entry of the audit in %2.',
    'Lost: %1 entries of the audit in %2.',
    count,
    f.word('place')
  );
}

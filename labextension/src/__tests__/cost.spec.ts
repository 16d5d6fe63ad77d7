import { costOf, idleShare } from '../cost';
import { english } from '../language';
import type { WireHolder, WireReport } from '../wire';
import { device, GIB, holder, report, verdict } from './fixtures';

const PRICE = { gpu_hour: 4, currency: '€' };
const half = (changes: Partial<WireHolder> = {}): WireHolder =>
  holder({ memory_bytes: 40 * GIB, idle_seconds: 7200, ...changes });
const cost = (changes: Partial<WireReport> = {}): string | undefined =>
  costOf(report({ holders: [half()], price: PRICE, ...changes }), english)?.text;

describe('what is held without work costs', () => {
  it('its share of the memory, an hour and so far', () => {
    expect(cost()).toBe('Held without work: 2.00 € an hour, 4.00 € so far');
    expect(costOf(report({ holders: [half()], price: PRICE }), english)?.title).toBe(
      '0.5 of a GPU by its share of the memory, idle for up to 2 h. A GPU costs 4.00 € an hour.'
    );
  });

  it('in the way of the language where the currency is one of the world', () => {
    expect(cost({ price: { gpu_hour: 4, currency: 'EUR' } })).toContain('€2.00 an hour');
    expect(cost({ price: { gpu_hour: 4, currency: '' } })).toContain('2.00 an hour');
  });

  it('and nothing is said of it where no price is set', () => {
    expect(cost({ price: null })).toBeUndefined();
  });

  it.each([
    ['computes', { verdict: verdict({ reasons: [{ code: 'computing', text: '', facts: {} }] }) }],
    ['only pauses', { idle_seconds: 30 }],
    ['is not known to be idle', { idle_seconds: null }],
    ['is only taken to be there', { estimated: true }]
  ] as [string, Partial<WireHolder>][])('not what %s', (_, changes) => {
    expect(cost({ holders: [half(changes)] })).toBeUndefined();
  });

  it('of an instance by the memory of its whole GPU', () => {
    const whole = device({ mig: true });
    const part = device({ uuid: 'MIG-1', part_of: 'GPU-a', mig: true, memory_total_bytes: 10 * GIB });
    const small = half({
      memory_bytes: 10 * GIB,
      holdings: [{ device: 'MIG-1', memory_bytes: 10 * GIB, compute_percent: 0, processes: [] }]
    });
    expect(idleShare(report({ devices: [whole, part], holders: [small] })).gpus).toBeCloseTo(1 / 8);
  });

  it('not where the size of the device is not known', () => {
    expect(idleShare(report({ devices: [], holders: [half()] })).gpus).toBe(0);
    expect(idleShare(report({ devices: [device({ memory_total_bytes: null })], holders: [half()] })).gpus).toBe(0);
  });
});

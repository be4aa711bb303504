# Writes <out>/<name>.bin: rows of little-endian (x, [y,] high: f64, low: f32).
import sys, struct, random, math
import mpmath as mp
out, count = sys.argv[1], int(sys.argv[2])
only = sys.argv[3:] 
mp.mp.prec = 160
inf = float('inf'); nan = float('nan')
def bits(x): return struct.unpack('<Q', struct.pack('<d', x))[0]
def flt(b): return struct.unpack('<d', struct.pack('<Q', b))[0]
def to_pair(v):
    """v: mpf or float special -> (hi, lo) with hi nearest f64"""
    if isinstance(v, float): return v, 0.0
    if mp.isnan(v): return nan, 0.0
    if mp.isinf(v): return (inf if v > 0 else -inf), 0.0
    if v == 0: return 0.0, 0.0
    # round to nearest f64, denormals included
    m, e = mp.frexp(v)
    q = max(e - 53, -1074)
    n = int(mp.nint(mp.ldexp(v, -q)))
    try: hi = math.ldexp(n, q)
    except OverflowError: return (inf if v > 0 else -inf), 0.0
    lo = v - mp.ldexp(mp.mpf(n), q)
    # in units of the last place
    if n == 0 and v < 0: hi = -0.0
    return hi, float(mp.ldexp(lo, -q))
def real(f):
    return lambda x: f(mp.mpf(x))
F = {}
def fn(name, f, special, lo=None, hi=None):
    F[name] = (f, special, lo, hi)
def sp(table):
    def s(x):
        if x != x: return nan
        for k, v in table:
            if x == k and (k != 0 or math.copysign(1, x) == math.copysign(1, k)): return v
        return None
    return s
Z = [(0.0, 0.0), (-0.0, -0.0)]
INF = [(inf, inf), (-inf, -inf)]
fn('exponential', lambda x: mp.exp(x), sp([(inf, inf), (-inf, 0.0)]), -760, 720)
fn('exponential_minus_one', lambda x: mp.expm1(x), sp(Z + [(inf, inf), (-inf, -1.0)]), -50, 720)
def log(x): return nan if x < 0 else mp.log(x)
fn('log', log, sp([(0.0, -inf), (-0.0, -inf), (inf, inf), (-inf, nan)]), 0, 4)
def log1p(x): return nan if x < -1 else (-inf if x == -1 else mp.log1p(x))
fn('log_plus_one', log1p, sp(Z + [(inf, inf), (-inf, nan)]), -1, 4)
fn('logistic', lambda x: 1 / (1 + mp.exp(-x)), sp([(inf, 1.0), (-inf, 0.0)]), -760, 50)
fn('tanh', lambda x: mp.tanh(x), sp(Z + [(inf, 1.0), (-inf, -1.0)]), -22, 22)
fn('sinh', lambda x: mp.sinh(x), sp(Z + INF), -712, 712)
fn('cosh', lambda x: mp.cosh(x), sp([(inf, inf), (-inf, inf)]), -712, 712)
fn('asinh', lambda x: mp.asinh(x), sp(Z + INF), -5, 5)
fn('acosh', lambda x: nan if x < 1 else mp.acosh(x), sp([(inf, inf), (-inf, nan)]), 1, 10)
fn('atanh', lambda x: nan if abs(x) > 1 else (mp.sign(x) * mp.inf if abs(x) == 1 else mp.atanh(x)), sp(Z + [(inf, nan), (-inf, nan)]), -1, 1)
fn('sine', lambda x: mp.sin(x), sp(Z + [(inf, nan), (-inf, nan)]), -100, 100)
fn('cosine', lambda x: mp.cos(x), sp([(inf, nan), (-inf, nan)]), -100, 100)
fn('tan', lambda x: mp.tan(x), sp(Z + [(inf, nan), (-inf, nan)]), -100, 100)
fn('asin', lambda x: nan if abs(x) > 1 else mp.asin(x), sp(Z + [(inf, nan), (-inf, nan)]), -1, 1)
fn('acos', lambda x: nan if abs(x) > 1 else mp.acos(x), sp([(inf, nan), (-inf, nan)]), -1, 1)
fn('atan', lambda x: mp.atan(x), sp(Z + [(inf, math.pi / 2), (-inf, -math.pi / 2)]), -5, 5)
fn('sqrt', lambda x: nan if x < 0 else mp.sqrt(x), sp(Z + [(inf, inf), (-inf, nan)]), 0, 10)
fn('rsqrt', lambda x: nan if x < 0 else 1 / mp.sqrt(x), sp([(0.0, inf), (-0.0, -inf), (inf, 0.0), (-inf, nan)]), 0, 10)
fn('cbrt', lambda x: mp.sign(x) * mp.cbrt(abs(x)), sp(Z + INF), -10, 10)
fn('erf', lambda x: mp.erf(x), sp(Z + [(inf, 1.0), (-inf, -1.0)]), -6.5, 6.5)
def erfc(x): return mp.mpf(0) if x > 30 else mp.erfc(x)
fn('erfc', erfc, sp([(inf, 0.0), (-inf, 2.0)]), -6, 28)
def erfinv(x):
    if abs(x) > 1: return nan
    if abs(x) == 1: return mp.sign(x) * mp.inf
    if abs(x) < mp.mpf(2) ** -60: return x * mp.sqrt(mp.pi) / 2
    return mp.erfinv(x)
fn('erf_inv', erfinv, sp(Z + [(inf, nan), (-inf, nan)]), -1, 1)
def lgamma(x):
    if x <= 0 and x == mp.floor(x): return inf
    if x > mp.mpf(10) ** 306: return inf if x > mp.mpf('2.5e305') else mp.loggamma(x)
    if abs(x) > 1e15 and x < 0: return inf
    return mp.re(mp.loggamma(x)) if x > 0 else mp.log(mp.pi / abs(mp.sin(mp.pi * x))) - mp.loggamma(1 - x)
fn('lgamma', lgamma, sp([(inf, inf), (-inf, inf), (0.0, inf), (-0.0, inf)]), -20, 30)
def digamma(x):
    if x <= 0 and x == mp.floor(x): return nan
    return mp.digamma(x)
fn('digamma', digamma, sp([(inf, inf), (-inf, nan), (0.0, nan), (-0.0, nan)]), -20, 30)
def bessel_i1e(x):
    if abs(x) < 200: return mp.besseli(1, x) * mp.exp(-abs(x))
    total, term = mp.mpf(1), mp.mpf(1)
    for k in range(1, 40):
        term *= -(4 - (2 * k - 1) ** 2) / (8 * k * abs(x))
        total += term
    return mp.sign(x) * total / mp.sqrt(2 * mp.pi * abs(x))
fn('bessel_i1e', bessel_i1e, sp(Z + [(inf, 0.0), (-inf, -0.0)]), -20, 20)

# two operands
def sp2(name):
    def s(x, y):
        if name == 'power':
            if y == 0 or x == 1: return 1.0
            try: r = math.pow(x, y)
            except OverflowError: return None
            except ValueError:
                if x == 0:
                    odd = y == math.floor(y) and y % 2 == 1
                    return math.copysign(inf, x) if odd else inf
                return nan
            if math.isnan(r) or math.isinf(x) or math.isinf(y) or x == 0: return r
            return None
        if name == 'atan2':
            if x != x or y != y: return nan
            if x == 0 or y == 0 or math.isinf(x) or math.isinf(y):
                return math.atan2(x, y)
            return None
    return s
def power(x, y):
    mp.mp.prec = 260
    e = y * mp.log(abs(x), 2)
    if e > 1100: r = mp.inf
    elif e < -1200: r = mp.mpf(0)
    else: r = mp.power(abs(x), y)
    mp.mp.prec = 160
    if x < 0 and int(y) % 2 == 1: r = -r
    if r == 0 and x < 0 and int(y) % 2 == 1: return -0.0
    return r
def atan2(y, x):
    v = mp.atan2(y, x)
    return v
def zeta(x, q):
    return mp.zeta(x, q)
def polygamma(n, x):
    return mp.psi(int(n), x)
G = {'power': (power, sp2('power')), 'atan2': (atan2, sp2('atan2')),
    'zeta': (zeta, lambda x, q: None), 'polygamma': (polygamma, lambda n, x: None)}

EDGES = [0.0, -0.0, inf, -inf, nan, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, -1.7976931348623157e308,
    1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, 10.0, 1.5, -1.5, 1 - 2**-53, 1 + 2**-52, -1 + 2**-53, -1 - 2**-52, math.pi, math.pi / 2, math.pi / 4, 3 * math.pi / 4,
    1e-300, 1e300, 1e-20, 1e20, 1e-10, 1e10, 88.7, -88.7, 709.78, 709.79, -708.4, -745.13, -745.14, 22.0, -22.0, 6381956970095103.0 * 2.0**797, 1e22, 2.0**30, 2.0**31 + 1, 2.0**90, 1e5, -1e5,
    0.25, 0.125, 4.0, 8.0, 27.0, 1000.0, 2.0**-1060, 0.9, -0.9, 0.99, 0.7071067811865476, 1.4142135623730951, 0.3465735902799726, 0.34657359027997264]
def samples(rng, lo, hi, n):
    xs = list(EDGES)
    while len(xs) < n:
        k = rng.random()
        if k < 0.35: x = flt(rng.getrandbits(64))
        elif k < 0.55: x = rng.choice([1, -1]) * 2 ** rng.uniform(-30, 12)
        elif k < 0.65: x = rng.choice([1, -1, 0.5, 2, math.pi, math.pi/2]) * (1 + rng.choice([1,-1]) * 2 ** rng.uniform(-50, -1))
        else: x = rng.uniform(lo, hi)
        xs.append(x)
    return xs
for name, (f, special, lo, hi) in F.items():
    if only and name not in only: continue
    rng = random.Random(name)
    with open(f'{out}/{name}.bin', 'wb') as file:
        for x in samples(rng, lo, hi, count):
            v = special(x)
            if v is None:
                need = 160
                if name in ('sine', 'cosine', 'tan') and abs(x) > 1: need = 160 + int(math.log2(abs(x))) + 80
                if name in ('erfc',): need = 1400 if abs(x) > 3 else 200
                if name in ('exponential_minus_one', 'log_plus_one', 'tanh', 'sinh', 'asinh', 'atanh', 'cosh'): need = 2400 if abs(x) < 1e-10 else 300
                if name in ('digamma', 'lgamma', 'bessel_i1e','erf_inv'): need = 260
                mp.mp.prec = need
                v = f(mp.mpf(x))
            h, l = to_pair(v)
            file.write(struct.pack('<ddf', x, h, l))
    print(name, flush=True)
for name, (f, special) in G.items():
    if only and name not in only: continue
    rng = random.Random(name)
    rows = [(a, b) for a in EDGES[:36] for b in EDGES[:36]]
    rows = rng.sample(rows, min(len(rows), count)) if name in ('power', 'atan2') else []
    if name == 'zeta': rows = [(1 + 2 ** rng.uniform(-6, 5), 2 ** rng.uniform(-6, 6)) for _ in range(count // 4)]
    if name == 'polygamma': rows = [(float(rng.randint(0, 12)), 2 ** rng.uniform(-6, 6)) for _ in range(count // 4)]
    while len(rows) < 2 * count and name in ('power', 'atan2'):
        k = rng.random()
        a = flt(rng.getrandbits(64)) if k < 0.3 else rng.choice([1, 1, -1]) * 2 ** rng.uniform(-5, 5)
        if name == 'power':
            b = rng.uniform(-700, 700) / max(abs(math.log(abs(a))), 1e-3) if a == a and a != 0 and abs(a) != inf and abs(a) != 1 else 2.5
            if k > 0.7: b = float(rng.randint(-60, 60))
            if k > 0.95: b /= 2
        else: b = flt(rng.getrandbits(64)) if k < 0.15 else a * rng.choice([1, -1]) * 2 ** rng.uniform(-8, 8)
        rows.append((a, b))
    with open(f'{out}/{name}.bin', 'wb') as file:
        for x, y in rows:
            v = special(x, y)
            mp.mp.prec = 300
            if v is None: v = f(mp.mpf(x), mp.mpf(y))
            h, l = to_pair(v)
            file.write(struct.pack('<dddf', x, y, h, l))
    print(name, flush=True)

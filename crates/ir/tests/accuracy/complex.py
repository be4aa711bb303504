# Prints complex.txt: an op, real and imaginary part of an argument and of the result.
import mpmath as mp, math
mp.mp.prec=2000
pts=[(0.3,0.4),(-0.7,1.3),(2.5,-0.1),(1e-9,2e-9),(-3.0,4.0),(1e-3,50.0),(20.0,1.0),(-15.0,-2.0),(0.999,1e-5),(-1.5,0.0),(1.5,1e-10),(300.0,200.0),(-300.0,-200.0),(1e200,1e199),(1e-200,-1e-190),(709.9,1.0),(-0.5,1e-3)]
fns=dict(exponential=mp.exp,exponential_minus_one=lambda z: mp.exp(z)-1,log=mp.log,log_plus_one=lambda z: mp.log(1+z),logistic=lambda z:1/(1+mp.exp(-z)),tanh=mp.tanh,sqrt=mp.sqrt,rsqrt=lambda z:1/mp.sqrt(z),cbrt=lambda z: mp.exp(mp.log(z)/3),sine=mp.sin,cosine=mp.cos,tan=mp.tan)
chlo=dict(sinh=mp.sinh,cosh=mp.cosh,asinh=mp.asinh,acosh=mp.acosh,atanh=mp.atanh,asin=mp.asin,acos=mp.acos,atan=mp.atan,square=lambda z:z*z)
def emit(name,f):
    for p in pts:
        z=mp.mpc(*p)
        big=max(abs(p[0]),abs(p[1]))
        if big>1e100 and name.split('.')[1] not in ('log','log_plus_one','sqrt','rsqrt','cbrt'): continue
        if name.split('.')[1] in ('asinh','asin','acos','acosh','atanh','atan') and (p[1]==0.0): continue
        try: v=f(z)
        except Exception as e: continue
        re,im=float(mp.re(v)),float(mp.im(v))
        if not (math.isfinite(re) and math.isfinite(im)): continue
        print(name, repr(p[0]),repr(p[1]),repr(re),repr(im))
for n,f in fns.items(): emit('stablehlo.'+n,f)
for n,f in chlo.items(): emit('chlo.'+n,f)

/*===- ptx.h - the PTX target ---------------------------------------------===*\
 *
 * Policies on the CPU by the PTX that a GPU's driver would get, instruction by
 * instruction (docs/ptx.md): a judge of what was compiled, and slow. A library of its
 * own, kvc::ptx, beside kvc::runtime; not in libkvc.so.
 *
\*===----------------------------------------------------------------------===*/

#ifndef KVC_PTX_H
#define KVC_PTX_H

#ifdef __cplusplus
extern "C" {
#endif

/* From here on modules can be opened with KVC_PTX. May be called more than once, and
 * from several threads. */
void kvc_enable_ptx(void);

#ifdef __cplusplus
}
#endif

#endif /* KVC_PTX_H */

/* old_dl.h: dlopen and its like by the version they had before glibc 2.34 moved them into libc: found on every system. */
#ifndef STW_OLD_DL_H
#define STW_OLD_DL_H

#include <dlfcn.h>

#if defined __GLIBC__ && defined __x86_64__
__asm__(".symver dlopen,dlopen@GLIBC_2.2.5");
__asm__(".symver dlsym,dlsym@GLIBC_2.2.5");
__asm__(".symver dlerror,dlerror@GLIBC_2.2.5");
#elif defined __GLIBC__ && defined __aarch64__
__asm__(".symver dlopen,dlopen@GLIBC_2.17");
__asm__(".symver dlsym,dlsym@GLIBC_2.17");
__asm__(".symver dlerror,dlerror@GLIBC_2.17");
#endif

#endif

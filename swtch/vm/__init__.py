# SPDX-License-Identifier: Apache-2.0
"""Virtual machines of our own: a kernel from its package, our programs in its memory.

    guests      which guests there are, and their names
    aptstate    packages of a foreign architecture or suite, without touching the system's apt
    cache       what was fetched or built, by content
    packages    kernels, headers and busybox unpacked from packages
    elf         which shared libraries a program needs
    build       the kernel module, the agent and the probes for a guest
    initramfs   the guest's root folder as one archive
    serial      frames on the serial line
    qemu        QEMU's command lines and its process
    session     a guest that is up: one program after the other
    kvm         whether KVM really works here
    prepare     all of the above in the right order

Nothing here needs root, installs anything or loads anything into the running
kernel. ``engines/vm.py`` and ``engines/exact.py`` are what measures with it.
"""
